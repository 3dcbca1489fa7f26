// Rules for a JoinToken that its schema cannot express. The site checks them before it stores the
// token, so that its author sees the error. Pure.

import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { checkQualifiedName } from '../../api/metadata/names.ts';
import { group, type Resource } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseAllowRule } from './allow-rules.ts';

/** Throws HANSA_INVALID that names every invalid allow rule and label. */
export function admitToken(token: Pick<Resource, 'metadata' | 'spec'>): void {
  const { spiffe, labels = {} } = token.spec as JoinToken['spec'];
  const rules = (spiffe?.allow ?? []).flatMap(({ spiffeID }, index) => {
    try {
      parseAllowRule(spiffeID);
      return [];
    } catch (error) {
      if (!(error instanceof HansaError)) throw error;
      return [invalid(`spec.spiffe.allow[${index}].spiffeID`, error.message)];
    }
  });
  const keys = Object.keys(labels).flatMap((key) =>
    checkQualifiedName(key).map((problem) =>
      invalid('spec.labels', `${JSON.stringify(key.slice(0, 80))}: ${problem}`),
    ),
  );
  const causes = [...rules, ...keys];
  if (causes.length === 0) return;
  const { name } = token.metadata;
  const { kind } = joinTokenKind;
  const told = causes.map(({ field, message }) => `${field}: ${message}`).join(', ');
  throw new HansaError('HANSA_INVALID', `${kind}.${group} "${name}" is invalid: ${told}`, {
    details: { group, kind, name, causes },
  });
}

function invalid(field: string, why: string) {
  return { reason: 'FieldValueInvalid', message: `Invalid value: ${why}`, field };
}
