// Who is calling, asked on every request and answered from memory while nothing has changed: a peer
// whose bundle is taken away, or whose certificate ends, is out at its next request, though its
// connection stands.

import type { TLSSocket } from 'node:tls';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Bundle, BundleSource } from '../bundle/bundle.ts';
import { readPeer, type Peer } from './peer-chain.ts';
import { brokenRule } from '../x509/rules.ts';
import { validateChain, type ValidatedSvid } from '../x509/svid-validator.ts';

/** What was found, and what it rests on: it holds as long as that is unchanged. */
interface Verdict {
  readonly svid: ValidatedSvid | undefined;
  readonly refusal: unknown;
  /** Undefined where the refusal came before any bundle was asked for. */
  readonly trustDomain: TrustDomain | undefined;
  readonly bundle: Bundle | undefined;
}

export class PeerAuthenticator {
  readonly #bundles: BundleSource;
  /** Entries go with their connections. */
  readonly #verdicts = new WeakMap<Peer, Verdict>();

  constructor(bundles: BundleSource) {
    this.#bundles = bundles;
  }

  /**
   * Undefined where the peer presented no certificate. Throws HANSA_CERTIFICATE_INVALID where it
   * presented one that is not to be believed. Costs a few comparisons, but for the first request of
   * a connection and the first after a change of the bundle: those check signatures (0.1 ms each).
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

  /** Refusals are kept as well: or a caller that is refused could have signatures checked without end. */
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
      // Anything else is a fault of ours and must not be mistaken for a refusal.
      if (brokenRule(refusal) === undefined) throw refusal;
      return { svid: undefined, refusal, trustDomain, bundle };
    }
  }
}

function dependsOnTime(refusal: unknown): boolean {
  const rule = brokenRule(refusal);
  return rule === 'expired' || rule === 'not-yet-valid';
}
