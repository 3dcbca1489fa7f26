// `hansa audit`: reads the audit log of a site, and verifies the log, an export or a proof.

import { createWriteStream, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { parseCheckpoint } from '../../core/audit/checkpoint.ts';
import { type NoteVerifier, parseVerifier } from '../../core/audit/note.ts';
import { parseWitnessKey } from '../../core/audit/cosignature.ts';
import type { VerifyOptions } from '../../core/audit/signed-head.ts';
import { verifyExport } from '../../core/audit/verify.ts';
import { hasCode } from '../../core/errors/error.ts';
import { type Cli, globalOptions } from '../cli.ts';
import { resolveConnection } from '../site/connection.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { createProgress } from '../output/progress.ts';
import { auditListCommand, auditShowCommand, indexArgument } from './audit-events.ts';
import type { StoppedLog } from './stopped-log.ts';
import {
  requireWitnesses,
  type VerifiedFile,
  verifyFile,
  witnessLines,
  witnessNotes,
} from './verify-file.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { sitePaths } from '../../server/routes/paths.ts';

export function auditCommand(cli: Cli): Command {
  return new Command('audit')
    .description('read and verify the audit log')
    .addHelpText('after', '\nExamples:\n  hansa audit list --since 1h\n  hansa audit verify')
    .addCommand(auditListCommand(cli))
    .addCommand(auditShowCommand(cli))
    .addCommand(exportCommand(cli))
    .addCommand(verifyCommand(cli))
    .addCommand(proofCommand(cli))
    .addCommand(checkpointCommand(cli));
}

function exportCommand(cli: Cli): Command {
  return new Command('export')
    .description('export the log, or what concerns one peer, for verification without the site')
    .option('--file <file>', 'the file to create (default: standard output)')
    .option('--peer <trust-domain>', 'only events that concern this peer, each with its proof')
    .option(
      '--checkpoint <file>',
      'with --peer: an earlier checkpoint, so that hansa audit verify can compare the proofs with it',
    )
    .addHelpText(
      'after',
      `
An export of one peer has a proof for each event. It shows that these events are in the log, and not
that there are no others. A whole export needs no --checkpoint: hansa audit verify compares it with any
earlier checkpoint.

Examples:
  hansa audit export --file lubeck.audit
  hansa audit export | gzip > lubeck.audit.gz
  hansa audit export --peer bruges.example --file bruges.proofs`,
    )
    .action((options: ExportFlags, command: Command) => {
      const { peer } = options;
      if (peer === undefined && options.checkpoint !== undefined) {
        throw usageError(
          '--checkpoint needs --peer: a whole export can be compared with any checkpoint.',
        );
      }
      const query = new URLSearchParams({
        ...(peer === undefined ? {} : { peer }),
        ...earlierQuery(cli, options.checkpoint),
      });
      return cli.withClient(command, async (client) => {
        const pieces = await client.stream(`${sitePaths.auditExport}?${query.toString()}`);
        if (options.file === undefined) {
          await pipeline(pieces, cli.io.stdout, { end: false });
          return;
        }
        // Never overwrite an older export: it may be evidence.
        const path = resolve(cli.io.cwd, options.file);
        const fd = openNew(path);
        const signal = cli.io.interruption();
        await pipeline(pieces, createWriteStream(path, { fd }), { signal }).catch(
          (error: NodeJS.ErrnoException) => {
            // An incomplete export would verify as a truncated log.
            rmSync(path, { force: true });
            // Errors of the site and of the connection already have a message.
            if (error.syscall !== 'write') throw error;
            throw usageError(`Cannot write ${path}: ${fileProblem(error)}.`);
          },
        );
        if (peer !== undefined && statSync(path).size === 0) {
          rmSync(path);
          cli.note(`There are no events that concern ${peer}.`);
          return;
        }
        cli.note(`Written to ${path}. To verify it: hansa audit verify ${options.file}`);
      });
    });
}

interface ExportFlags {
  readonly file?: string;
  readonly peer?: string;
  readonly checkpoint?: string;
}

/** Asks for a consistency proof from an earlier checkpoint. */
function earlierQuery(cli: Cli, path: string | undefined): { readonly earlier?: string } {
  return path === undefined ? {} : { earlier: String(readCheckpoint(cli, path).size) };
}

function openNew(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    throw usageError(`Cannot write ${path}: ${fileProblem(error)}.`);
  }
}

interface VerifyFlags {
  readonly key?: string;
  readonly witness: readonly string[];
  readonly checkpoint?: string;
  readonly output: OutputFormat;
}

function verifyCommand(cli: Cli): Command {
  return new Command('verify')
    .description('verify the log of a site, an export, or the proof of one event')
    .argument('[file]', 'an export or a proof; without it, the log of the site')
    .option('--key <text>', 'the public key of the log, from a source that you trust')
    .option(
      '--witness <text>',
      'the public key of a witness, from a source that you trust',
      collect,
      [],
    )
    .option('--checkpoint <file>', 'an earlier checkpoint, which the log must extend')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Verifying a file needs no site and no network. With --key, the command rejects a log that another key
signed. With --checkpoint, it rejects a log whose earlier events were changed. A proof needs a consistency
proof for that: get it from the site with the same --checkpoint. With --witness, the command rejects a log
without a cosignature by that key, and says which cosignatures are not by a key that you gave. To print the
key of a site, for --key or --witness: hansa audit checkpoint --key. The exit code is 11
(HANSA_AUDIT_INVALID) if the log does not verify.

Examples:
  hansa audit verify
  hansa audit verify lubeck.audit --key "$(cat lubeck.key)" --checkpoint yesterday.checkpoint`,
    )
    .action(async (file: string | undefined, flags: VerifyFlags, command: Command) => {
      const progress = createProgress(cli.io, 'verifying');
      const witnesses = flags.witness.map(witnessKey);
      const options: VerifyOptions = {
        key: flags.key === undefined ? undefined : logKey(flags.key),
        earlier: flags.checkpoint === undefined ? undefined : readCheckpoint(cli, flags.checkpoint),
        witnesses,
        progress: progress.update,
      };
      try {
        const found =
          file === undefined
            ? await verifySite(cli, command, options)
            : { verified: await verifyFile(resolve(cli.io.cwd, file), options), unsigned: 0 };
        progress.end();
        report(cli, found, flags, witnesses, file !== undefined);
        requireWitnesses(found.verified, witnesses);
      } finally {
        progress.end();
      }
    });
}

/** Reads the log from the site or, if the site does not run, from its store. */
async function verifySite(cli: Cli, command: Command, options: VerifyOptions): Promise<StoppedLog> {
  try {
    return await cli.withClient(command, async (client) => ({
      verified: await verifyExport(await client.stream(sitePaths.auditExport), options),
      unsigned: 0,
    }));
  } catch (error) {
    const connection = resolveConnection(globalOptions(command), cli.io);
    if (!hasCode(error, 'HANSA_UNREACHABLE') || connection.via === 'url') throw error;
    const { dataDir } = connection;
    // Imported here, so that other commands do not load the store.
    const { verifyStoppedLog } = await import('./stopped-log.ts');
    const stopped = await verifyStoppedLog(dataDir, cli.io.env['HANSA_KEY_FILE'], cli.io, options);
    if (stopped === undefined) throw error;
    cli.note('The site does not run. This is the log in its store.');
    return stopped;
  }
}

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text];
}

function witnessKey(text: string): NoteVerifier {
  try {
    return parseWitnessKey(text.trim());
  } catch (error) {
    throw usageError(`--witness: ${(error as Error).message}`);
  }
}

function logKey(text: string): NoteVerifier {
  try {
    return parseVerifier(text.trim());
  } catch (error) {
    // A usage error: the flag is wrong, not the log.
    throw usageError(`--key: ${(error as Error).message}`);
  }
}

function readCheckpoint(cli: Cli, path: string): ReturnType<typeof parseCheckpoint> {
  const text = readText(cli, path);
  try {
    return parseCheckpoint(text);
  } catch (error) {
    throw usageError(`--checkpoint ${path} is not a checkpoint: ${(error as Error).message}`);
  }
}

function readText(cli: Cli, path: string): string {
  try {
    return readFileSync(resolve(cli.io.cwd, path), 'utf8');
  } catch (error) {
    throw usageError(`Cannot read ${path}: ${fileProblem(error)}.`);
  }
}

function report(
  cli: Cli,
  { verified, unsigned }: StoppedLog & { readonly verified: VerifiedFile },
  flags: VerifyFlags,
  witnesses: readonly NoteVerifier[],
  isFile: boolean,
): void {
  const { origin, size, rootHash, key, keyIsTrusted, proofs } = verified;
  const value = {
    origin,
    events: size,
    rootHash: rootHash.toString('base64'),
    publicKey: key.text,
    keyIsTrusted,
    unsignedEvents: unsigned,
    cosigned: verified.cosigned,
    ...(proofs === undefined ? {} : { proofs }),
  };
  const rendered = renderValue(value, flags.output);
  if (rendered !== undefined) {
    cli.print(rendered);
    return;
  }
  const what =
    proofs === undefined
      ? `${origin}: ${size} events`
      : `${proofs.length === 1 ? `event ${proofs[0]} is` : `${proofs.length} events are`} in the log of ${origin}`;
  cli.print(`${what}, verified. Root ${value.rootHash}`);
  if (unsigned > 0) cli.print(`${unsigned} events after the last checkpoint are not signed yet`);
  // A proof carries no cosignatures.
  if (proofs === undefined) {
    for (const line of witnessLines(verified)) cli.print(line);
    if (isFile || witnesses.length > 0) {
      for (const line of witnessNotes(verified)) cli.note(line);
    }
  }
  // A site that answers directly names its own key. A file can come from anyone.
  if (isFile && !keyIsTrusted) {
    cli.note(`The log was verified with the key that the log itself names: ${key.text}`);
    cli.note(
      'Compare it with the output of hansa audit checkpoint --key at the site, or pass that key with --key.',
    );
  }
}

function proofCommand(cli: Cli): Command {
  return new Command('proof')
    .description('print one event with the proof that it is in the log')
    .addArgument(indexArgument())
    .option(
      '--checkpoint <file>',
      'an earlier checkpoint, so that hansa audit verify can compare the proof with it',
    )
    .addHelpText(
      'after',
      `
Examples:
  hansa audit proof 42 > event-42.json && hansa audit verify event-42.json
  hansa audit proof 42 --checkpoint yesterday.checkpoint > event-42.json`,
    )
    .action((index: number, options: { readonly checkpoint?: string }, command: Command) => {
      const query = earlierQuery(cli, options.checkpoint);
      return cli.withClient(command, async (client) => {
        const { body } = await client.request({
          path: pathTo(sitePaths.auditProof, { index: String(index) }),
          query,
        });
        cli.print(JSON.stringify(body));
      });
    });
}

function checkpointCommand(cli: Cli): Command {
  return new Command('checkpoint')
    .description('print the signed checkpoint, for a later hansa audit verify --checkpoint')
    .option('--key', 'print the public key of the log instead')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa audit checkpoint > today.checkpoint\n  hansa audit checkpoint --key > lubeck.key',
    )
    .action((options: { key?: boolean }, command: Command) =>
      cli.withClient(command, async (client) => {
        const { body } = await client.request({ path: sitePaths.auditCheckpoint });
        const { publicKey, checkpoint } = body as { publicKey: string; checkpoint: string };
        cli.print(options.key === true ? publicKey : checkpoint.trimEnd());
      }),
    );
}
