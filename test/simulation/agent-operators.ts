// What operators of a site with agents change in the simulation: entries, labels of agents, bundles,
// peers, offers and grants. They write through any replica that is up.

import { agentKind } from '../../src/api/kinds/agent.ts';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { peerLabel, spiffeFederationKind } from '../../src/api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { toHansaError } from '../../src/core/errors/error.ts';
import { forgeRoot } from '../../src/core/identity/x509/test-forge.ts';
import type { Commit, Store } from '../../src/core/store/store.ts';
import { documentOf } from '../../src/trust/agents/state/test-site-objects.ts';
import type { Simulation } from './simulation.ts';

const entryNames = ['api', 'cache', 'db', 'queue', 'web'];
const labelValues = ['harbour', 'market', 'tower'];
const peerName = 'bruges.example';
const federatedName = 'spire.example';
const documents = new Map(
  [peerName, federatedName].map((name) => [
    name,
    [forgeRoot(name), forgeRoot(name)].map((root) => documentOf(name, root)),
  ]),
);

interface Stored {
  readonly metadata: object;
  readonly spec: object;
  readonly status?: object;
}

const idOf = (name: string): string => `spiffe://lubeck.example/${name}`;

export interface AgentOperatorsParts {
  readonly simulation: Simulation;
  readonly agentNames: readonly string[];
  /** Of the replicas that are up, by node. */
  readonly stores: () => readonly (readonly [node: string, store: Store])[];
}

export class AgentOperators {
  readonly #parts: AgentOperatorsParts;
  readonly #random: SeededRandom;
  #generation = 0;

  constructor(parts: AgentOperatorsParts) {
    this.#parts = parts;
    this.#random = parts.simulation.random.fork('operators');
  }

  changeEntry(random: SeededRandom): void {
    const name = random.pick(entryNames);
    const collection = workloadEntryKind.plural;
    if (random.chance(0.2)) {
      this.#delete(collection, name);
      return;
    }
    const agents = random.chance(0.5)
      ? { names: this.#parts.agentNames.filter(() => random.chance(0.5)) }
      : { selector: { matchLabels: { place: random.pick(labelValues) } } };
    const uid = random.chance(0.2) ? this.#random.uuid() : `uid-${name}`;
    const spec = {
      spiffeID: idOf(name),
      selectors: ['unix:uid:1000'],
      federatesWith: random.pick([[], ['*'], [peerName], [federatedName]]),
      // Otherwise it belongs to the machine of the site.
      ...(random.chance(0.9) && { agents }),
    };
    this.#put(collection, name, { metadata: { uid }, spec });
  }

  /** What decides which bundles and grants agents get beside their entries. */
  changeRelation(random: SeededRandom): void {
    const name = random.pick([peerName, federatedName]);
    const offer = random.pick(entryNames);
    const grant = `grant-${random.integer(1, 2)}`;
    const rotate = (): void =>
      this.#put(spiffeFederationKind.plural, name, {
        metadata: { labels: name === peerName ? { [peerLabel]: name } : {} },
        spec: { bundleSource: { static: {} }, quarantined: random.chance(0.1) },
        status: { bundle: random.pick(documents.get(name) ?? []) },
      });
    const changes: readonly (() => void)[] = [
      rotate,
      rotate,
      rotate,
      () =>
        this.#put(federationPeerKind.plural, peerName, {
          metadata: {},
          spec: { url: `https://${peerName}:8443` },
          status: { state: random.pick(['active', 'active', 'suspended']) },
        }),
      () =>
        this.#put(serviceOfferKind.plural, offer, {
          metadata: {},
          spec: { spiffeID: idOf(offer) },
        }),
      () =>
        this.#put(federationGrantKind.plural, grant, {
          metadata: {},
          spec: {
            peer: peerName,
            offers: entryNames.filter(() => random.chance(0.4)),
            nodeInstances: { unrestricted: true },
            networks: { unrestricted: true },
            sourceCIDRs: { unrestricted: true },
          },
        }),
      () => this.#delete(federationGrantKind.plural, grant),
      () => this.#delete(spiffeFederationKind.plural, name),
    ];
    random.pick(changes)();
  }

  label(name: string, random: SeededRandom): void {
    this.#putAgent(name, { place: random.pick(labelValues) });
  }

  forget(name: string): void {
    this.#delete(agentKind.plural, name);
  }

  /** Calls `done` when the agent has joined, without labels. */
  join(name: string, done: () => void): void {
    this.#putAgent(name, {}, done);
  }

  #putAgent(name: string, labels: object, done?: () => void): void {
    this.#put(agentKind.plural, name, { metadata: { labels }, spec: {} }, done);
  }

  #put(collection: string, name: string, object: Stored, done?: () => void): void {
    const generation = ++this.#generation;
    const metadata = { name, uid: `uid-${name}`, generation, ...object.metadata };
    const bytes = Buffer.from(JSON.stringify({ ...object, metadata }));
    const put = [{ collection, name, encode: () => bytes }];
    // Bundles are long.
    const { status: _, ...shown } = object;
    this.#write(`puts ${collection}/${name} ${JSON.stringify(shown)}`, { put }, done);
  }

  #delete(collection: string, name: string): void {
    this.#write(`deletes ${collection}/${name}`, { delete: [{ collection, name }] });
  }

  /** A write may fail, as it may in a real site. */
  #write(what: string, commit: Commit, done: () => void = () => undefined): void {
    const { simulation, stores } = this.#parts;
    const up = stores();
    if (up.length === 0) return;
    const [node, store] = this.#random.pick(up);
    simulation.event(`${node}: ${what}`);
    const write = async (): Promise<void> => {
      try {
        await store.commit(commit);
        done();
      } catch (error) {
        simulation.event(`${node}: ${what} failed with ${toHansaError(error).code}`);
      }
    };
    void write();
  }
}
