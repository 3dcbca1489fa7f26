// Opens the channel of an agent to its site: one gRPC call on a connection of its own, with the SVID of
// the agent as client certificate. The site must present its own SVID, verified against the bundle that
// the agent got when it joined, or later from the site.

import type { TLSSocket } from 'node:tls';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { SiteStream } from '../../core/agent/agent-link.ts';
import {
  agentExporterBytes,
  agentExporterLabel,
  connectPath,
  maxToAgentBytes,
} from '../../core/agent/limits.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import type { Log } from '../../core/log/log.ts';
import { connectSite } from '../client/join-client.ts';
import type { JoinFolder } from '../client/join-folder.ts';
import { membershipOf } from '../client/join-renewal.ts';
import { parseServer, readBundle } from '../client/join-server.ts';
import { RpcClientCall } from '../client/rpc-client.ts';

export interface SiteStreamOptions {
  /** Where the site is now; undefined: where it was when the agent joined. */
  readonly server: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export async function openSiteStream(
  folder: JoinFolder,
  { server: moved, clock, log, signal }: SiteStreamOptions,
): Promise<SiteStream> {
  const { server, trustDomain } = membershipOf(folder);
  const url = parseServer(moved ?? server);
  const bundle = readBundle(
    folder.read('bundle.pem'),
    TrustDomain.parse(trustDomain),
    'bundle.pem',
  );
  const { socket } = await connectSite({
    server: { url, bundle },
    clock,
    signal,
    credential: {
      certificateChain: folder.read('svid.pem'),
      privateKey: folder.read('svid.key'),
    },
    purpose: 'connect to',
  }).catch((cause: unknown) => {
    if (!hasCode(cause, 'HANSA_PEER_UNTRUSTED')) throw cause;
    const rule = brokenRule(cause.cause);
    // A clock is wrong: another bundle would not help.
    if (rule === 'expired' || rule === 'not-yet-valid') throw cause;
    throw new HansaError(
      'HANSA_PEER_UNTRUSTED',
      `${cause.message} If the site replaced its authorities while this agent was away, get its new bundle from its operator and run: hansa join renew --write ${folder.path} --bundle FILE`,
      { cause },
    );
  });
  try {
    // Verified, so later starts can use it.
    folder.keepServer(url);
  } catch (error) {
    // On a full disk, for example. This process knows the address.
    log.error('cannot store the new address of the site', { error, server: url.origin });
  }
  try {
    return streamOver(socket, url);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** The stream owns the socket. */
function streamOver(socket: TLSSocket, url: URL): SiteStream {
  const exporter = socket.exportKeyingMaterial(
    agentExporterBytes,
    agentExporterLabel,
    Buffer.alloc(0),
  );
  const call = new RpcClientCall(socket, url.host, connectPath, {
    purpose: `connect to ${url.origin}`,
    maxAnswerBytes: maxToAgentBytes,
  });
  return {
    read: () => call.read(),
    write: (message) => call.write(message),
    get backlogBytes() {
      return call.backlogBytes;
    },
    exporter,
    close: () => call.close(),
  };
}
