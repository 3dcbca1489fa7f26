// The gRPC service on the admin socket that signs CSRs: the owner of the site sends signing requests and
// gets X.509-SVIDs for workloads. Unlike the Workload API, it trusts its only caller.

import { timestamp } from '../../api/object.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { IssuedSvid } from '../../core/identity/authority/authority.ts';
import { maxTtlSeconds } from '../../core/identity/authority/phases.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { AdminCall } from '../../core/plane/stream.ts';
import { isNameOfSite } from '../workload/entries/matching-entries.ts';
import { grpcStatus } from '../workload/socket/grpc-status.ts';
import { answerEach, answerOnce, type CallLimits } from './grpc-call.ts';
import {
  frameMinted,
  frameRefusal,
  frameStreamed,
  type Minted,
  type MintRequest,
  readMintRequest,
  readStreamedRequest,
} from './mint-messages.ts';
import { maxRequestBytes, readSigningRequest } from './signing-request.ts';

export interface MintContext extends Pick<PlaneContext, 'authority' | 'audit' | 'metrics'> {
  /** DNS names that no workload may have. One that begins with a dot means the domain and everything below it. */
  readonly siteNames: readonly string[];
}

const limits: CallLimits = {
  maxMessageBytes: maxRequestBytes + 64,
  // Enough to keep signing and verifying busy; a signature takes 30 µs, so waits are short.
  inFlight: 64,
  silentMs: 10_000,
};

export function mintCalls(context: MintContext): readonly AdminCall[] {
  const mint = minter(context);
  return [
    {
      path: '/hansa.mint.v1.Mint/MintX509SVID',
      handle: (stream) =>
        answerOnce(stream, limits, async (message) =>
          frameMinted(await mint(readMintRequest(message))),
        ),
    },
    {
      path: '/hansa.mint.v1.Mint/MintX509SVIDs',
      handle: (stream) =>
        answerEach(stream, limits, async (message) => {
          const request = readStreamedRequest(message);
          try {
            return frameStreamed(request.id, await mint(request));
          } catch (error) {
            const { code, details } = grpcStatus(error);
            return frameRefusal(request.id, { code, message: details });
          }
        }),
    },
  ];
}

function minter({ authority, audit, metrics, siteNames }: MintContext) {
  const minted = metrics.counter<'result'>({
    name: 'hansa_minted_svids_total',
    help: 'X.509-SVIDs signed for requests over the admin socket, by result.',
    labels: ['result'],
  });
  return async ({ csr, ttlSeconds }: MintRequest): Promise<Minted> => {
    try {
      const { spiffeId, dnsNames, publicKey } = await readSigningRequest(csr);
      // The owner signs the requests of others, who must not get a name that clients trust as the site.
      const taken = dnsNames.find((name) => isNameOfSite(name.toLowerCase(), siteNames));
      if (taken !== undefined) throw nameOfSite(taken);
      const issued = await authority.issue({
        spiffeId,
        publicKey,
        dnsNames,
        ttlSeconds: ttlSeconds === 0 ? maxTtlSeconds : ttlSeconds,
      });
      const id = spiffeId.toString();
      minted.add(issuedLabel);
      audit.later({
        actor,
        verb: 'svid.mint',
        kind: 'SVID',
        name: id,
        outcome: 'allow',
        reason: recordOf(issued),
      });
      return { chain: issued.chain, spiffeId: id, expiresAtSeconds: issued.notAfterMs / 1000 };
    } catch (error) {
      minted.add(refusedLabel);
      throw error;
    }
  };
}

function nameOfSite(name: string): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot sign the request: it contains ${name}, a DNS name of the site itself. Choose another.`,
  );
}

/** Only the owner can open the socket. */
const actor: AuditActor = socketOwner;
const issuedLabel = { result: 'issued' };
const refusedLabel = { result: 'refused' };

function recordOf({ serialHex, notAfterMs }: IssuedSvid): string {
  return `serial number ${serialHex}, until ${timestamp(notAfterMs)}`;
}
