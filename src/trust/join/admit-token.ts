// Rules for a JoinToken that its schema cannot express. The site checks them before it stores the
// token, so that its author sees the error. Pure.

import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { group, type Resource } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseAllowRule } from './allow-rules.ts';

/** Throws HANSA_INVALID that names every invalid allow rule. */
export function admitToken(token: Pick<Resource, 'metadata' | 'spec'>): void {
  const { spiffe } = token.spec as JoinToken['spec'];
  const causes = (spiffe?.allow ?? []).flatMap(({ spiffeID }, index) => {
    try {
      parseAllowRule(spiffeID);
      return [];
    } catch (error) {
      if (!(error instanceof HansaError)) throw error;
      const field = `spec.spiffe.allow[${index}].spiffeID`;
      const message = `Invalid value: ${error.message}`;
      return [{ reason: 'FieldValueInvalid', message, field }];
    }
  });
  if (causes.length === 0) return;
  const { name } = token.metadata;
  const { kind } = joinTokenKind;
  const told = causes.map(({ field, message }) => `${field}: ${message}`).join(', ');
  throw new HansaError('HANSA_INVALID', `${kind}.${group} "${name}" is invalid: ${told}`, {
    details: { group, kind, name, causes },
  });
}
