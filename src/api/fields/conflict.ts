// The error for a conflict between field managers.

import { type Cause, HansaError } from '../../core/errors/error.ts';
import { listPaths } from './field-set.ts';
import { compareBytes, quoteGo } from '../schema/go-text.ts';
import type { ManagerIdentity } from './managed-fields.ts';
import { printPath } from './path-element.ts';
import type { Conflict } from './updater.ts';

/** The 409 of kube-apiserver: one cause a field, and a message that kubectl prints as it is. */
export function conflictError(
  conflicts: readonly Conflict[],
  identities: ReadonlyMap<string, ManagerIdentity>,
): HansaError {
  const causes: Cause[] = [];
  const lines: string[] = [];
  for (const { manager, fields } of conflicts.toSorted((a, b) =>
    compareBytes(a.manager, b.manager),
  )) {
    const name = printManager(identities.get(manager), manager);
    lines.push(`conflicts with ${name}:`);
    for (const path of listPaths(fields)) {
      const field = printPath(path);
      lines.push(`- ${field}`);
      causes.push({ reason: 'FieldManagerConflict', message: `conflict with ${name}`, field });
    }
  }
  const [first] = causes;
  const message =
    causes.length === 1
      ? `Apply failed with 1 conflict: ${first?.message}: ${first?.field}`
      : `Apply failed with ${causes.length} conflicts: ${lines.join('\n')}`;
  return new HansaError('HANSA_CONFLICT', message, { details: { causes } });
}

function printManager(identity: ManagerIdentity | undefined, identifier: string): string {
  if (identity === undefined) return quoteGo(identifier);
  let text = quoteGo(identity.manager);
  if (identity.subresource !== '') text += ` with subresource ${quoteGo(identity.subresource)}`;
  return identity.operation === 'Update' ? `${text} using ${identity.apiVersion}` : text;
}
