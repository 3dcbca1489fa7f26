// The flag `--endpoint-prefix`, which several commands have.

import { isIP } from 'node:net';
import { InvalidArgumentError, Option } from 'commander';

export const prefixOption = (): Option =>
  new Option(
    '--endpoint-prefix <prefix...>',
    'the address ranges of its endpoints, such as 10.1.0.0/16; other clusters get no other address of it',
  ).argParser((text: string, before: readonly string[] | undefined) => [
    ...(before ?? []),
    parsePrefix(text),
  ]);

export function parsePrefix(text: string): string {
  const [address = '', bits = '', ...rest] = text.split('/');
  const family = isIP(address);
  const isLength = /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
  if (family !== 0 && isLength && rest.length === 0 && !address.includes('%')) {
    return `${address}/${Number(bits)}`;
  }
  throw new InvalidArgumentError('Expected a prefix, such as 10.1.0.0/16.');
}
