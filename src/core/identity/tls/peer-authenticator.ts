// Authenticates the TLS client on every request, with a cache that is valid while nothing changes. A
// peer that loses its bundle, or whose certificate expires, is rejected at its next request, even on
// an open connection.

import type { TLSSocket } from 'node:tls';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Bundle, BundleSource } from '../bundle/bundle.ts';
import { readPeer, type Peer } from './peer-chain.ts';
import { brokenRule } from '../x509/rules.ts';
import { validateChain, type ValidatedSvid } from '../x509/svid-validator.ts';

/** A cached result, and the inputs that it is valid for. */
interface Verdict {
  readonly svid: ValidatedSvid | undefined;
  readonly refusal: unknown;
  /** Undefined where validation failed before it looked up a bundle. */
  readonly trustDomain: TrustDomain | undefined;
  readonly bundle: Bundle | undefined;
}

export class PeerAuthenticator {
  readonly #bundles: BundleSource;
  /** Entries disappear with their connections. */
  readonly #verdicts = new WeakMap<Peer, Verdict>();

  constructor(bundles: BundleSource) {
    this.#bundles = bundles;
  }

  /**
   * Undefined where the peer presented no certificate. Throws HANSA_CERTIFICATE_INVALID where it
   * presented an invalid one. Costs a few comparisons, except for the first request of a connection
   * and the first after a bundle change: those verify signatures (0.1 ms each).
   */
  authenticate(socket: TLSSocket, nowMs: number): ValidatedSvid | undefined {
    const peer = readPeer(socket);
    if (peer.refusal !== undefined) throw peer.refusal;
    if (peer.chain.length === 0) return undefined;
    let verdict = this.#verdicts.get(peer);
    if (verdict === undefined || !this.#holds(verdict, nowMs)) {
      verdict = this.#judge(peer, nowMs);
      this.#verdicts.set(peer, verdict);
    }
    if (verdict.svid === undefined) throw verdict.refusal;
    return verdict.svid;
  }

  /** Rejections are cached as well, so that a rejected caller cannot cause endless signature checks. */
  #holds(verdict: Verdict, nowMs: number): boolean {
    const { svid, trustDomain } = verdict;
    if (svid !== undefined && (nowMs < svid.notBeforeMs || nowMs > svid.notAfterMs)) return false;
    if (svid === undefined && dependsOnTime(verdict.refusal)) return false;
    return trustDomain === undefined || this.#bundles.bundleFor(trustDomain) === verdict.bundle;
  }

  #judge(peer: Peer, nowMs: number): Verdict {
    let trustDomain: TrustDomain | undefined;
    let bundle: Bundle | undefined;
    const bundles: BundleSource = {
      bundleFor: (asked) => {
        bundle = this.#bundles.bundleFor(asked);
        trustDomain = asked;
        return bundle;
      },
    };
    try {
      const svid = validateChain(peer.chain, bundles, nowMs);
      return { svid, refusal: undefined, trustDomain, bundle };
    } catch (refusal) {
      // Other errors are bugs and must not look like a rejection.
      if (brokenRule(refusal) === undefined) throw refusal;
      return { svid: undefined, refusal, trustDomain, bundle };
    }
  }
}

function dependsOnTime(refusal: unknown): boolean {
  const rule = brokenRule(refusal);
  return rule === 'expired' || rule === 'not-yet-valid';
}
