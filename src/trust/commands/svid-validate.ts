// `hansa svid validate`: tells whether this site accepts an SVID, and if not, which rule it violates.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { HansaError } from '../../core/errors/error.ts';
import type { GoodSvid, Verdict } from '../workload/svids/validate-svid.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';
import { trustPaths } from '../paths.ts';

interface ValidateOptions {
  readonly audience?: string;
  readonly output: OutputFormat;
}

/** More than a certificate chain of maximum length has in PEM. */
const maxCharacters = 100_000;

export function svidValidateCommand(kit: CommandKit): Command {
  return new Command('validate')
    .description('check whether this site accepts an SVID, and if not, why')
    .argument('[file]', 'a JWT-SVID, or PEM certificates with the leaf first; - for standard input')
    .option('--audience <name>', 'for a JWT-SVID: the audience that it must have')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site verifies the SVID against its own bundle and the bundles of its federations. The command
reads a token from a file or standard input. It accepts none on the command line, which every user of
the machine can see.

Examples:
  hansa svid validate ./tls/svid.pem
  hansa svid validate --audience db < token
  hansa svid validate token --audience db -o json`,
    )
    .action(async (file: string | undefined, options: ValidateOptions, command: Command) => {
      const text = await readSvid(kit, file);
      const body = requestOf(text, options.audience);
      await kit.withClient(command, async (client) => {
        const answer = await client.request({
          method: 'POST',
          path: trustPaths.validate,
          body,
        });
        const verdict = answer.body as Verdict;
        const rendered = kit.renderValue(verdict, options.output);
        if (rendered !== undefined) kit.print(rendered);
        if (!verdict.valid) {
          throw new HansaError(verdict.code, verdict.message, {
            details: { causes: [{ reason: verdict.rule, message: verdict.message }] },
          });
        }
        if (rendered === undefined) for (const line of linesOf(verdict)) kit.print(printable(line));
      });
    });
}

function requestOf(text: string, audience: string | undefined): Readonly<Record<string, string>> {
  if (text.includes('-----BEGIN CERTIFICATE-----')) {
    // Only the certificates are sent. The rest of the file, such as the key, stays on this machine.
    const blocks = text.match(
      /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----/g,
    );
    if (blocks === null) throw usageError('The file contains no complete certificate.');
    return { certificates: blocks.join('\n') };
  }
  if (text.includes('-----BEGIN')) throw usageError('The file contains no certificate.');
  if (audience === undefined) {
    throw usageError('A JWT-SVID is valid only for its audience: add --audience.');
  }
  return { token: text.trim(), audience };
}

async function readSvid(kit: CommandKit, file: string | undefined): Promise<string> {
  if (file !== undefined && /^[\w-]+\.[\w-]+\.[\w-]*$/.test(file) && file.startsWith('eyJ')) {
    throw usageError(
      'Every user of this machine can see a token on the command line, and your shell history may contain it now. Use a file or standard input.',
    );
  }
  if (file === undefined || file === '-') {
    let text = '';
    for await (const chunk of kit.io.stdin) {
      text += String(chunk);
      if (text.length > maxCharacters) throw usageError('Standard input is too long for an SVID.');
    }
    if (text.trim() === '')
      throw usageError('Standard input is empty. Name a file, or pipe an SVID to standard input.');
    return text;
  }
  let text: string;
  try {
    text = readFileSync(resolve(kit.io.cwd, file), 'utf8');
  } catch (error) {
    throw usageError(`Cannot read ${file}: ${fileProblem(error)}.`);
  }
  if (text.length > maxCharacters) throw usageError(`${file} is too long for an SVID.`);
  return text;
}

function linesOf(svid: GoodSvid): readonly string[] {
  const { spiffeId, type, notAfter, serialNumber, authority, keyId, audience = [] } = svid;
  return [
    `${spiffeId}   ${type}   until ${notAfter}`,
    type === 'X509-SVID'
      ? `  serial ${serialNumber ?? ''}   authority ${(authority ?? '').slice(0, 16)}`
      : `  for ${audience.join(', ')}   key ${keyId ?? ''}`,
  ];
}
