// Parses a repeatable flag KEY=VALUE into labels, with the rules for labels of objects.

import { InvalidArgumentError } from 'commander';
import { checkLabelValue, checkQualifiedName } from '../../api/metadata/names.ts';

/** `earlier` are the labels of the same flag before. */
export function parseLabelFlag(
  text: string,
  earlier: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const [key = '', value, ...more] = text.split('=');
  if (value === undefined || more.length > 0) {
    throw new InvalidArgumentError('Expected a label such as quay=north.');
  }
  const problem = checkQualifiedName(key)[0] ?? checkLabelValue(value)[0];
  if (problem !== undefined) throw new InvalidArgumentError(`Invalid label: ${problem}`);
  if (Object.hasOwn(earlier, key) && earlier[key] !== value) {
    throw new InvalidArgumentError(`The label ${key} has two values.`);
  }
  return { ...earlier, [key]: value };
}
