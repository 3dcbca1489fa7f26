// Rules for a WorkloadEntry that its schema cannot express, such as that its ID is in our trust domain.
// The site checks them before it stores the entry, so that its author sees the error. Pure.

import { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import { group, type Resource } from '../../../api/object.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { forbiddenObject } from '../../../core/access/denial.ts';
import { HansaError } from '../../../core/errors/error.ts';
import {
  type EntryProblem,
  isNameOfSite,
  usableEntry,
  type WorkloadEntry,
} from './matching-entries.ts';

const fields: Record<EntryProblem['reason'], string> = {
  InvalidID: 'spec.spiffeID',
  ForeignTrustDomain: 'spec.spiffeID',
  ReservedPath: 'spec.spiffeID',
  NeverMatches: 'spec.selectors',
  InvalidSelector: 'spec.federatesWithSelector',
  InvalidAgents: 'spec.agents.selector',
};

/** Throws HANSA_INVALID, or HANSA_FORBIDDEN for a reserved path, which the audit log records. */
export function admitEntry(
  entry: Pick<Resource, 'metadata' | 'spec'>,
  trustDomain: TrustDomain,
): void {
  const found = usableEntry(entry as WorkloadEntry, trustDomain);
  if ('entry' in found) return;
  const { name } = entry.metadata;
  const { reason, message: why } = found.problem;
  if (reason === 'ReservedPath') throw forbiddenObject(workloadEntryKind.plural, name, why);
  const field = fields[reason];
  const message = `Invalid value: ${why}`;
  throw new HansaError(
    'HANSA_INVALID',
    `${workloadEntryKind.kind}.${group} "${name}" is invalid: ${field}: ${message}`,
    {
      details: {
        group,
        kind: workloadEntryKind.kind,
        name,
        causes: [{ reason: 'FieldValueInvalid', message, field }],
      },
    },
  );
}

/**
 * Throws HANSA_FORBIDDEN if the entry asks for a DNS name of the site. Clients that do not speak SPIFFE,
 * such as kubectl, verify only these names. A workload with one of them could impersonate the site and
 * receive the tokens of its users.
 */
export function admitNames(
  entry: Pick<Resource, 'metadata' | 'spec'>,
  siteNames: readonly string[],
  live?: Pick<Resource, 'spec'>,
): void {
  const { dnsNames = [] } = entry.spec as WorkloadEntry['spec'];
  // An entry may keep a name that it had before the site did. Its SVIDs do not contain it.
  const { dnsNames: known = [] } = (live?.spec ?? {}) as Partial<WorkloadEntry['spec']>;
  const taken = dnsNames.find(
    (wanted) => !known.includes(wanted) && isNameOfSite(wanted, siteNames),
  );
  if (taken === undefined) return;
  throw forbiddenObject(
    workloadEntryKind.plural,
    entry.metadata.name,
    `spec.dnsNames contains ${taken}, a name of the site itself (${siteNames.join(', ')}): choose another`,
  );
}
