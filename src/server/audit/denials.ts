// Converts a denied request into a record of the audit log.

import { actorOf } from '../../core/access/audit-draft.ts';
import { anonymous } from '../../core/access/identity.ts';
import type { KindName } from '../../core/access/presets.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { HansaError } from '../../core/errors/error.ts';
import type { FederationDispatcherParts } from '../listeners/federation-listener.ts';
import type { HandshakeBudgetParts } from '../listeners/handshake-budget.ts';
import type { RequestDispatcherParts } from '../http/request-dispatcher.ts';
import type { SourceAddressesParts } from '../http/source-address.ts';

/** `kinds` maps the resource in the error to its kind, as in other records. */
export function denials(
  audit: Pick<Audit, 'deny'>,
  kinds: readonly KindName[] = [],
): {
  readonly ofCallers: RequestDispatcherParts['denied'];
  readonly ofPeers: FederationDispatcherParts['denied'];
  readonly ofHeaders: SourceAddressesParts['denied'];
  readonly ofHandshakes: HandshakeBudgetParts['denied'];
} {
  const objectOf = ({ details }: HansaError): { kind?: string; name?: string } => {
    if (details?.kind === undefined) return {};
    const found = kinds.find(({ plural }) => plural === details.kind);
    const { name } = details;
    return { kind: found?.kind ?? details.kind, ...(name === undefined ? {} : { name }) };
  };
  return {
    ofCallers: (caller, error, { method, address }) =>
      audit.deny({
        actor: actorOf(caller, address === undefined ? {} : { address }),
        verb: method.toLowerCase(),
        ...objectOf(error),
        outcome: 'deny',
        code: error.code,
        reason: error.code === 'HANSA_UNAUTHENTICATED' ? 'no valid credential' : error.message,
      }),
    ofPeers: (peer, error, { route, address }) =>
      audit.deny({
        actor: {
          ...(peer === undefined ? actorOf(anonymous) : { user: peer, groups: [], via: 'peer' }),
          ...(address === undefined ? {} : { address }),
        },
        verb: 'federation',
        outcome: 'deny',
        code: error.code,
        reason: `${route}: ${error.message}`,
      }),
    ofHeaders: (listener, address, error) =>
      audit.deny({
        actor: actorOf(anonymous, { address }),
        verb: 'source.forwarded',
        outcome: 'deny',
        code: error.code,
        reason: `${listener}: ${error.message}`,
      }),
    ofHandshakes: (address, error) =>
      audit.deny({
        actor: actorOf(anonymous, { address }),
        verb: 'tls.handshake',
        outcome: 'deny',
        code: error.code,
        reason: error.message,
      }),
  };
}
