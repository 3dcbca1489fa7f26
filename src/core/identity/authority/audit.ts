// Audit records of changes to the site's authorities: one record per step, in the same commit as the
// change.

import { timestamp } from '../../../api/object.ts';
import type { AuditActor } from '../../audit/event.ts';
import type { Audit } from '../../audit/log.ts';
import type { AuditRow } from '../../store/store.ts';
import type { AuthorityKind, AuthorityVerb, PhaseStep } from './phases.ts';

export interface AuthorityStep extends PhaseStep {
  readonly kind: AuthorityKind;
}

/** Creates the audit records for the steps of one commit. */
export type AuthorityAudit = (steps: readonly AuthorityStep[]) => readonly AuditRow[];

const meanings: Readonly<Record<AuthorityVerb, string>> = {
  prepare: 'published, does not sign yet',
  activate: 'signs from now on',
  taint: 'may be compromised; the site replaces everything that it signed',
  revoke: 'removed from the bundle',
};

/** Every record of the commit includes `why`. */
export function authorityAudit(
  audit: Pick<Audit, 'record'>,
  actor: AuditActor,
  why?: string,
): AuthorityAudit {
  return (steps) =>
    steps.map(({ verb, kind, id, notAfterMs }) =>
      audit.record({
        actor,
        verb: `authority.${verb}`,
        kind: kind === 'x509' ? 'Authority' : 'JWTAuthority',
        name: id,
        outcome: 'allow',
        reason: `${meanings[verb]}; expires ${timestamp(notAfterMs)}${why === undefined ? '' : `; ${why}`}`,
      }),
    );
}

/** The site itself, for automatic rotations. */
export const rotationActor: AuditActor = {
  user: 'system:rotation',
  groups: [],
  via: 'controller',
};
