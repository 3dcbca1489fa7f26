// The maximum number of federations of a site (maxFederations). The site trusts each of them, fetches
// its bundle every few minutes and sends it to workloads. Near the limit, the site warns in the
// response to the write and in the log.

import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { group } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Expectation, Store } from '../../core/store/store.ts';
import { defaultTrustSettings } from '../settings.ts';

const collection = spiffeFederationKind.plural;
/** The site warns from this fraction of the limit on. */
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
        help: 'Maximum number of federations (maxFederations).',
      },
      (report) => report({}, limit),
    );
    if (limit > defaultTrustSettings.maxFederations) log.warn(raised(limit), { limit });
  }

  /**
   * Call it before a federation is stored. Throws HANSA_LIMIT above the limit. Federations of peers
   * count too. Returns the preconditions of the commit, so that two concurrent writes cannot exceed
   * the limit.
   */
  admit(name: string, warn: (text: string) => void): readonly Expectation[] {
    // An update of an existing federation does not count.
    if (this.#store.get(collection, name) !== undefined) return [];
    const limit = this.#limit;
    const count = this.#store.count(collection) + 1;
    if (count > limit) {
      const why = `this site has reached its limit of ${limit} federations. Delete one, or start the server with a higher maxFederations`;
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
  return `maxFederations is ${limit}, above the recommended ${defaultTrustSettings.maxFederations}: with every federation, the site trusts one more trust domain`;
}
