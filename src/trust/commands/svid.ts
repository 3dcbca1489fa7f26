// hansa svid: identities of workloads. `watch` is a workload itself and asks the workload socket,
// like every other; `mint` asks the owner's socket.

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
    .description('identities of workloads')
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
    .description('show the identities that this very process gets, and every renewal')
    .option(
      '--socket <path>',
      'the workload socket (SPIFFE_ENDPOINT_SOCKET, or that of --data-dir)',
    )
    .option('--write <folder>', 'keep certificate, key and bundles there, fresh, as PEM files')
    .option('--once', 'end after the first answer')
    .option('--exec <command>', 'with --write: run this after each renewal, or once with --signal')
    .addOption(
      new Option('--signal <name>', 'send this signal on renewal, such as HUP').argParser(
        parseSignal,
      ),
    )
    .option('--pid-file <file>', 'signal the process that this file names, not that of --exec')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Needs no right but to be matched by a WorkloadEntry: the site asks the kernel who calls. With
--write the folder holds svid.pem, svid.key, bundle.pem and a file for every federated trust domain;
each is replaced as a whole. It goes on when the site was restarted.

Programs that read the files learn of a renewal in one of three ways: --exec runs a reload command
after each write; --exec with --signal starts the program when the first files are there, signals it
on each renewal and ends it with this command; --pid-file signals a program that runs already.

Examples:
  hansa svid watch --data-dir ./lubeck
  hansa svid watch --once -o json
  hansa svid watch --write ./tls --exec 'systemctl reload nginx'
  hansa svid watch --write ./tls --exec 'haproxy -W -f haproxy.cfg' --signal USR2
  hansa svid watch --write ./tls --pid-file /run/nginx.pid --signal HUP`,
    )
    .action(async (options: WatchOptions, command: Command) => {
      // Loaded here, so that no other command waits for gRPC.
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
      // Between two attempts nothing else would keep the process: its clock's timers do not.
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
    throw usageError('--signal needs --exec or --pid-file: say whom to signal.');
  }
  if (write === undefined) throw usageError('Say with --write where the files are kept.');
  if (command !== undefined && pidFile !== undefined) {
    throw usageError('Give either --exec or --pid-file, not both.');
  }
  if (once === true) {
    throw usageError('--once ends before there is a renewal: leave --exec and --pid-file out.');
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
    .description('issue an SVID by hand, as the owner of the site')
    .argument('<spiffe-id>', 'in the trust domain of the site, not below /hansa')
    .addOption(
      new Option(
        '--audience <name>',
        'a JWT-SVID instead, for this one alone; may be given several times',
      ).argParser((name: string, before: readonly string[] | undefined) => [
        ...(before ?? []),
        name,
      ]),
    )
    .addOption(
      new Option(
        '--ttl <duration>',
        'how long it lives: 1m to 1h (1h); a JWT-SVID from 10s (5m)',
      ).argParser(parseDurationFlag),
    )
    .option(
      '--write <folder>',
      'write svid.pem, svid.key and bundle.pem there; other files stay as they are',
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
For programs that cannot ask the workload socket. Nothing renews what was minted: prefer a
WorkloadEntry. The key is made here and does not leave this machine. With --audience it is a
JWT-SVID: whoever has the token is taken for the workload by that audience, until it expires.

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
          kit.print(rendered ?? printable(`${spiffeId} until ${notAfter} is in ${folder}.`));
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
    throw usageError('--write is for certificates: send the token where you want it with >.');
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
    // One line or one document a state, for programs that read on.
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
    printable(`  federated with ${federated.length === 0 ? 'nobody' : federated.join(', ')}`),
  );
  const counts = [...state.jwtKeys].map(
    ([id, keys]) => `${keys.length} of ${id.slice('spiffe://'.length)}`,
  );
  kit.print(printable(`  JWT keys: ${counts.join(', ')}`));
}
