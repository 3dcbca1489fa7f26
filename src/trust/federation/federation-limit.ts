// How many trust domains a site federates with, at most: each is believed, asked every few minutes,
// and given to workloads, so the number is meant to be thought about. Whoever comes near the limit
// hears of it in time, in the answer to the write that brings them there and in the log.

import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { group } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Expectation, Store } from '../../core/store/store.ts';
import { defaultTrustSettings } from '../settings.ts';

const collection = spiffeFederationKind.plural;
/** From this part of the limit on there are warnings. */
const near = 0.8;

export class FederationLimit {
  readonly #store: Pick<Store, 'count' | 'get'>;
  readonly #limit: number;
  readonly #log: Log;

  constructor(store: Pick<Store, 'count' | 'get'>, limit: number, log: Log, metrics: Metrics) {
    this.#store = store;
    this.#limit = limit;
    this.#log = log;
    metrics.observe(
      {
        name: 'hansa_federations_limit',
        help: 'How many federations there may be (maxFederations).',
      },
      (report) => report({}, limit),
    );
    if (limit > defaultTrustSettings.maxFederations) log.warn(raised(limit), { limit });
  }

  /**
   * To be asked before a federation is stored. Throws HANSA_LIMIT for the one too many; those that
   * peering makes count like any other. Returns what must hold at the commit, so that of two that
   * come in the same instant one is the last.
   */
  admit(name: string, warn: (text: string) => void): readonly Expectation[] {
    // One that is there already takes no further place, whatever becomes of this write.
    if (this.#store.get(collection, name) !== undefined) return [];
    const limit = this.#limit;
    const count = this.#store.count(collection) + 1;
    if (count > limit) {
      const why = `this site may federate with ${limit} trust domains, and does so already. Delete one that is not needed, or start the server with a higher maxFederations`;
      throw new HansaError('HANSA_LIMIT', `Cannot federate with ${name}: ${why}.`, {
        details: {
          group,
          kind: spiffeFederationKind.kind,
          name,
          causes: [{ reason: 'maxFederations', message: why }],
        },
      });
    }
    if (count >= limit * near) {
      this.#warn(
        warn,
        name,
        `${count} of at most ${limit} federations are in use (maxFederations)`,
      );
    }
    if (count > defaultTrustSettings.maxFederations) this.#warn(warn, name, raised(limit));
    return [{ collection, below: limit }];
  }

  #warn(warn: (text: string) => void, trustDomain: string, text: string): void {
    warn(text);
    this.#log.warn(text, { trustDomain });
  }
}

function raised(limit: number): string {
  return `maxFederations was raised to ${limit}, above the ${defaultTrustSettings.maxFederations} that are recommended: every federation is trust in one more authority`;
}
