// What the audit log is told of changes of the site's authorities: one row a step, in the same commit.

import { timestamp } from '../../../api/object.ts';
import type { AuditActor } from '../../audit/event.ts';
import type { Audit } from '../../audit/log.ts';
import type { AuditRow } from '../../store/store.ts';
import type { AuthorityKind, AuthorityVerb, PhaseStep } from './phases.ts';

export interface AuthorityStep extends PhaseStep {
  readonly kind: AuthorityKind;
}

/** Makes the rows for the steps of one commit. */
export type AuthorityAudit = (steps: readonly AuthorityStep[]) => readonly AuditRow[];

const meanings: Readonly<Record<AuthorityVerb, string>> = {
  prepare: 'published, and signs nothing yet',
  activate: 'signs from now on',
  taint: 'not to be relied upon; what it signed is replaced',
  revoke: 'taken out of the bundle',
};

/** `why` is told with every step. */
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

/** The site itself: it rotates what ages. */
export const rotationActor: AuditActor = {
  user: 'system:rotation',
  groups: [],
  via: 'controller',
};
