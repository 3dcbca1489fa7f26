// `hansa svid`: SVIDs of workloads. `fetch` and `watch` call the Workload API as any workload does.
// `mint` and `validate` call the admin API.

import { createPublicKey } from 'node:crypto';
import { resolve } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { Command, Option } from 'commander';
import { timestamp } from '../../api/object.ts';
import { toHansaError } from '../../core/errors/error.ts';
import { exportPkcs8, generateP256 } from '../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import { type OnRenewal, onRenewal, parseSignal } from '../apply/on-renewal.ts';
import type { MintedSvid } from '../workload/svids/mint.ts';
import type { MintedJwtSvid } from '../workload/svids/mint-jwt.ts';
import type { ReceivedIdentities, ReceivedState, ReceivedSvid } from '../client/workload-client.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { svidFetchCommand } from './svid-fetch.ts';
import { type SvidFiles, writeSvidFiles } from '../client/svid-files.ts';
import { svidValidateCommand } from './svid-validate.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { socketOf } from './workload-socket.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { trustPaths } from '../paths.ts';

export function svidCommand(kit: CommandKit): Command {
  return new Command('svid')
    .description('fetch, watch, mint and validate SVIDs')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa svid watch --once\n  hansa svid mint spiffe://lubeck.example/batch --write ./tls',
    )
    .addCommand(svidFetchCommand(kit))
    .addCommand(watchCommand(kit))
    .addCommand(mintCommand(kit))
    .addCommand(svidValidateCommand(kit));
}

interface WatchOptions {
  readonly socket?: string;
  readonly write?: string;
  readonly once?: boolean;
  readonly exec?: string;
  readonly signal?: NodeJS.Signals;
  readonly pidFile?: string;
  readonly output: OutputFormat;
}

function watchCommand(kit: CommandKit): Command {
  return new Command('watch')
    .description('show the SVIDs of this process, and every renewal')
    .option(
      '--socket <path>',
      'the workload socket (default: SPIFFE_ENDPOINT_SOCKET, or the one in --data-dir)',
    )
    .option(
      '--write <folder>',
      'write certificate, key and bundles to this folder, and keep them current',
    )
    .option('--once', 'exit after the first response')
    .option(
      '--exec <command>',
      'with --write: run this after each renewal; with --signal: start this once',
    )
    .addOption(
      new Option('--signal <name>', 'send this signal after each renewal, such as HUP').argParser(
        parseSignal,
      ),
    )
    .option('--pid-file <file>', 'signal the process whose ID is in this file, instead of --exec')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command needs no permission, only a WorkloadEntry that matches this process. With --write, the folder
contains svid.pem, svid.key, bundle.pem and one file per federated trust domain. The command replaces
each file atomically, and reconnects after a restart of the site.

There are three ways to notify a program of a renewal. --exec runs a reload command after each write.
--exec with --signal starts the program after the first write, signals it after each renewal, and
stops it when this command stops. --pid-file signals a program that is already running.

Examples:
  hansa svid watch --data-dir ./lubeck
  hansa svid watch --once -o json
  hansa svid watch --write ./tls --exec 'systemctl reload nginx'
  hansa svid watch --write ./tls --exec 'haproxy -W -f haproxy.cfg' --signal USR2
  hansa svid watch --write ./tls --pid-file /run/nginx.pid --signal HUP`,
    )
    .action(async (options: WatchOptions, command: Command) => {
      // Imported here, so that other commands do not load gRPC.
      const { followIdentities } = await import('../client/workload-client.ts');
      const socket = socketOf(kit, command, options.socket);
      const renewal = renewalOf(kit, options);
      const states = followIdentities({
        socket,
        signal: kit.io.interruption(),
        clock: kit.io.clock,
        lost: (error, retryMs) =>
          kit.note(
            printable(`${toHansaError(error).message} Trying again in ${retryMs / 1000} s.`),
          ),
      });
      // The timers of the clock do not keep the process alive between two attempts. This port does.
      const { port1: anchor } = new MessageChannel();
      anchor.on('message', () => undefined);
      try {
        for await (const state of states) {
          const first = state.svids[0];
          if (options.write !== undefined && first !== undefined) {
            writeSvidFiles(resolve(kit.io.cwd, options.write), filesOf(state, first));
            renewal?.renewed();
          }
          showState(kit, state, options.output);
          if (options.once === true) break;
        }
      } finally {
        await renewal?.stop();
        anchor.close();
      }
    });
}

function renewalOf(kit: CommandKit, options: WatchOptions): OnRenewal | undefined {
  const { exec: command, pidFile, signal, once, write } = options;
  if (command === undefined && pidFile === undefined) {
    if (signal === undefined) return undefined;
    throw usageError('--signal needs --exec or --pid-file.');
  }
  if (write === undefined) throw usageError('--exec and --pid-file need --write.');
  if (command !== undefined && pidFile !== undefined) {
    throw usageError('Set either --exec or --pid-file, not both.');
  }
  if (once === true) {
    throw usageError('--once exits before the first renewal: remove --exec and --pid-file.');
  }
  const { cwd } = kit.io;
  return onRenewal({
    command,
    signal,
    pidFile: pidFile === undefined ? undefined : resolve(cwd, pidFile),
    cwd,
    note: (text) => kit.note(printable(text)),
  });
}

interface MintOptions {
  readonly audience?: readonly string[];
  readonly ttl?: number;
  readonly write?: string;
  readonly output: OutputFormat;
}

function mintCommand(kit: CommandKit): Command {
  return new Command('mint')
    .description('issue an SVID directly, without a WorkloadEntry')
    .argument('<spiffe-id>', 'an ID in the trust domain of the site, not below /hansa')
    .addOption(
      new Option(
        '--audience <name>',
        'issue a JWT-SVID for this audience instead (repeatable)',
      ).argParser((name: string, before: readonly string[] | undefined) => [
        ...(before ?? []),
        name,
      ]),
    )
    .addOption(
      new Option(
        '--ttl <duration>',
        'the lifetime: 1m to 1h (default 1h); for a JWT-SVID 10s to 1h (default 5m)',
      ).argParser(parseDurationFlag),
    )
    .option('--write <folder>', 'write svid.pem, svid.key and bundle.pem to this folder')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
For programs that cannot use the workload socket. The site does not renew a minted SVID, so prefer a
WorkloadEntry. The command generates the key, which does not leave this machine. A JWT-SVID
(--audience) is a bearer token: until it expires, that audience accepts it from any caller.

Examples:
  hansa svid mint spiffe://lubeck.example/batch --ttl 10m --write ./tls
  hansa svid mint spiffe://lubeck.example/batch --audience db > token`,
    )
    .action((spiffeID: string, options: MintOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        if (options.audience !== undefined) {
          await mintToken(kit, client, spiffeID, options, options.audience);
          return;
        }
        const key = await generateP256(kit.io.random);
        const publicKey = createPublicKey(key).export({ format: 'pem', type: 'spki' }).toString();
        const { body } = await client.request({
          method: 'POST',
          path: trustPaths.mint,
          body: {
            spiffeID,
            publicKey,
            ...(options.ttl === undefined ? {} : { ttlSeconds: Math.round(options.ttl / 1000) }),
          },
        });
        const minted = body as MintedSvid;
        const privateKey = privateKeyPem(exportPkcs8(key));
        if (options.write !== undefined) {
          const folder = resolve(kit.io.cwd, options.write);
          const { certificate, bundle } = minted;
          writeSvidFiles(folder, { certificate, bundle, privateKey });
          const { spiffeId, serialNumber, notAfter } = minted;
          const rendered = kit.renderValue(
            { spiffeId, serialNumber, notAfter, folder },
            options.output,
          );
          kit.print(
            rendered ??
              printable(`Wrote the SVID of ${spiffeId}, valid until ${notAfter}, to ${folder}.`),
          );
          return;
        }
        const rendered = kit.renderValue({ ...minted, privateKey }, options.output);
        kit.print(rendered ?? `${minted.certificate}${privateKey}${minted.bundle}`.trimEnd());
      }),
    );
}

async function mintToken(
  kit: CommandKit,
  client: SiteClient,
  spiffeID: string,
  { ttl, write, output }: MintOptions,
  audience: readonly string[],
): Promise<void> {
  if (write !== undefined) {
    throw usageError(
      '--write is only for certificates. Redirect standard output to write the token to a file.',
    );
  }
  const { body } = await client.request({
    method: 'POST',
    path: trustPaths.mintJwt,
    body: {
      spiffeID,
      audience,
      ...(ttl === undefined ? {} : { ttlSeconds: Math.round(ttl / 1000) }),
    },
  });
  const minted = body as MintedJwtSvid;
  kit.print(kit.renderValue(minted, output) ?? printable(minted.token));
  kit.note(printable(`(for ${audience.join(', ')}; until ${minted.expiresAt})`));
}

function filesOf(state: ReceivedState, svid: ReceivedSvid): SvidFiles {
  const pem = (certificates: ReceivedSvid['chain']): string =>
    certificates.map(({ der }) => certificatePem(der)).join('');
  return {
    certificate: pem(svid.chain),
    privateKey: privateKeyPem(svid.key),
    bundle: pem(svid.authorities),
    federated: new Map([...state.federated].map(([id, found]) => [id, pem(found)])),
  };
}

function showState(kit: CommandKit, state: ReceivedIdentities, output: OutputFormat): void {
  const federated = [...state.federated.keys()].map((id) => id.slice('spiffe://'.length));
  const svids = state.svids.map(({ id, hint, chain: [leaf] }) => ({
    spiffeId: id.toString(),
    hint,
    serialNumber: leaf?.serialHex ?? '',
    notAfter: timestamp(leaf?.notAfterMs ?? 0),
  }));
  if (output.format === 'json' || output.format === 'yaml') {
    const jwtKeys = Object.fromEntries(
      [...state.jwtKeys].map(([id, keys]) => [id.slice('spiffe://'.length), keys]),
    );
    const shown = { svids, federatesWith: federated, jwtKeys };
    // One JSON line or YAML document per state, for programs that read a stream.
    kit.print(
      output.format === 'json'
        ? JSON.stringify(shown)
        : `---\n${kit.renderValue(shown, output) ?? ''}`,
    );
    return;
  }
  const rows = svids.map(({ spiffeId, serialNumber, notAfter }) =>
    [spiffeId, `until ${notAfter}`, `serial ${serialNumber}`].map((cell) => printable(cell)),
  );
  if (rows.length > 0) kit.print(renderColumns(rows));
  kit.print(
    printable(
      `  federated with ${federated.length === 0 ? 'no other trust domain' : federated.join(', ')}`,
    ),
  );
  const counts = [...state.jwtKeys].map(
    ([id, keys]) => `${keys.length} of ${id.slice('spiffe://'.length)}`,
  );
  kit.print(printable(`  JWT keys: ${counts.join(', ')}`));
}
