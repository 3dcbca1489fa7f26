// Reads and writes the saved inputs in corpus/TARGET/NAME. Binary inputs are hex, so that reviewers can
// read a change.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, 'corpus');

export interface Kept {
  readonly name: string;
  readonly input: Buffer;
}

export function readCorpus(target: string): readonly Kept[] {
  const path = join(folder, target);
  if (!existsSync(path)) return [];
  return readdirSync(path)
    .toSorted()
    .map((name) => {
      const bytes = readFileSync(join(path, name));
      const input = name.endsWith('.hex')
        ? Buffer.from(bytes.toString('latin1').replaceAll(/\s/g, ''), 'hex')
        : bytes;
      return { name, input };
    });
}

/** Returns where it lies. */
export function keepInput(target: string, input: Buffer): string {
  const path = join(folder, target);
  mkdirSync(path, { recursive: true });
  const digest = createHash('sha256').update(input).digest('hex').slice(0, 12);
  const file = join(path, `crash-${digest}.hex`);
  const lines = input.toString('hex').match(/.{1,96}/g) ?? [];
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}
