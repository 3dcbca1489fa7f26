// Decides whether an SVID may reach an offer now, for Envoy's external authorization (v3 Check). Only the
// workload that serves an offer may ask about it, because the answers reveal grants. The operator gets
// the reason of a denial; the caller does not. Pure.

import { decideGrant, type GrantMiss } from '../../api/grants.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import { toHansaError } from '../../core/errors/error.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { refuse } from '../../core/identity/x509/rules.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import {
  chainSteps,
  type ChainVerdict,
  isSignedHere,
  judgeChain,
  maxChainLength,
  svidOf,
} from '../../core/identity/x509/svid-validator.ts';
import type { FederationState } from './federation-state.ts';
import { type Asker, decideCaller, decidesByOffer } from './offer-callers.ts';

/** The relevant fields of a Check request of Envoy. */
export interface AccessQuestion {
  /** The SPIFFE ID of the caller, as Envoy verified it. May be empty if there is a certificate. */
  readonly principal: string;
  /** The caller's leaf in PEM, percent-encoded; may be empty. */
  readonly certificate: string;
  /** Undefined: is there any address from which the call is allowed? Only `hansa grant check` asks this. */
  readonly sourceAddress: string | undefined;
  /** The HTTP method; undefined for a TCP connection. */
  readonly method: string | undefined;
  /** From the filter's configuration. */
  readonly offer: string;
}

export type AccessDecision =
  | {
      readonly allowed: true;
      readonly id: SpiffeId;
      /** For the operator: a clause. */
      readonly reason: string;
      /** The grant that covers the call; absent if the offer itself names the caller. */
      readonly grant?: string;
    }
  | {
      readonly allowed: false;
      /** Bounded, for metrics. */
      readonly kind:
        | 'contact'
        | 'question'
        | 'offer'
        | 'asker'
        | 'caller'
        | 'entry'
        | 'callers'
        | 'grant';
      /** For the operator only. */
      readonly reason: string;
      /** The caller, if it was verified. */
      readonly id: SpiffeId | undefined;
      /** If no grant covers the call: the missing condition, and the closest grant. */
      readonly miss?: GrantMiss;
      readonly grant?: string;
    };

export interface AccessFacts {
  /** The entries of the workload that asks. */
  readonly askers: readonly Asker[];
  readonly federationState: FederationState;
  readonly bundles: BundleSource;
  readonly nowMs: number;
  /** Undefined where signatures must be verified first. Default: verifies them on this thread. */
  readonly verdictOn?: (chain: readonly Certificate[]) => ChainVerdict | undefined;
  /** Why grants and peers are too old to decide with; undefined where they are current. */
  readonly outOfContact?: string | undefined;
}

/** Far above a leaf in PEM with percent-encoding. */
const maxCertificateCharacters = 64 * 1024;

/** The signatures of this chain must be verified before a decision. */
export class UnverifiedCaller extends Error {
  readonly chain: readonly Certificate[];

  constructor(chain: readonly Certificate[]) {
    super('the signatures of the caller are not verified yet');
    this.chain = chain;
  }
}

/** Throws UnverifiedCaller. */
export function decideAccess(question: AccessQuestion, facts: AccessFacts): AccessDecision {
  const { federationState, nowMs } = facts;
  const deny = (
    kind: Extract<AccessDecision, { allowed: false }>['kind'],
    reason: string,
    id?: SpiffeId,
  ): AccessDecision => ({ allowed: false, kind, reason, id });
  if (facts.outOfContact !== undefined) return deny('contact', facts.outOfContact);
  if (question.offer === '') {
    return deny(
      'question',
      'the request names no offer: set context_extensions {offer: NAME} in the filter of Envoy',
    );
  }
  const offer = federationState.offers.get(question.offer);
  if (offer === undefined) return deny('offer', `this site has no offer ${question.offer}`);
  const servers = facts.askers.filter((asker) => asker.id.toString() === offer.spec.spiffeID);
  const [server] = servers;
  if (server === undefined) {
    return deny(
      'asker',
      `only ${offer.spec.spiffeID}, which serves it, may ask about ${question.offer}`,
    );
  }
  let id: SpiffeId;
  try {
    id = callerOf(question, facts);
  } catch (error) {
    if (error instanceof UnverifiedCaller) throw error;
    return deny('caller', toHansaError(error).message);
  }
  // The site no longer trusts this trust domain. Envoy may still hold its old bundle.
  if (facts.bundles.bundleFor(id.trustDomain) === undefined) {
    return deny('caller', `the site trusts no bundle of ${id.trustDomain.name} now`, id);
  }
  if (decidesByOffer({ id, own: server.id }, federationState)) {
    return { ...decideCaller(offer, id, servers, federationState), id };
  }
  const peer = id.trustDomain.name;
  const decision = decideGrant(
    {
      peer,
      spiffeID: id.toString(),
      target: { type: 'offer', name: question.offer },
      sourceAddress: question.sourceAddress,
      need: question.method === undefined ? 'connect' : { method: question.method },
      nowMs,
    },
    federationState.peers.get(peer),
    federationState.grantsByPeer.get(peer) ?? [],
  );
  if (decision.covered) return { allowed: true, id, ...coveredBy(decision.grant) };
  const { covered: _denied, ...why } = decision;
  return { allowed: false, kind: 'grant', id, ...why };
}

export function coveredBy(grant: string): { readonly grant: string; readonly reason: string } {
  return { grant, reason: `grant ${grant} covers it` };
}

/**
 * If there is a certificate, it must verify against the bundle of its trust domain and have the
 * SPIFFE ID that Envoy names. Without one, the site relies on the verification by Envoy: a
 * workload that lies could admit callers only to itself. Throws an error for the operator.
 */
function callerOf(question: AccessQuestion, facts: AccessFacts): SpiffeId {
  const { principal, certificate } = question;
  if (certificate === '') return SpiffeId.parse(principal);
  if (certificate.length > maxCertificateCharacters) {
    throw refuse('size-limit', `it has ${certificate.length} characters`);
  }
  const chain = parseCertificatesPem(decoded(certificate), maxChainLength);
  const { bundles, nowMs, verdictOn } = facts;
  const verdict = verdictOn
    ? verdictOn(chain)
    : judgeChain(chainSteps(chain, bundles, nowMs), isSignedHere);
  if (verdict === undefined) throw new UnverifiedCaller(chain);
  const { id } = svidOf(verdict);
  if (principal !== '' && principal !== id.toString()) {
    throw refuse('expected-id', `it names ${id.toString()}, but Envoy says ${excerpt(principal)}`);
  }
  return id;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw refuse('no-certificate', 'its percent-encoding is broken', cause);
  }
}
