// Fuzz targets for both ends of the channel between a site and its agents, and for the objects that an
// agent gets.

import { parseFromAgent } from '../../../src/core/agent/from-agent.ts';
import { maxFromAgentBytes, maxToAgentBytes } from '../../../src/core/agent/limits.ts';
import { keyOf } from '../../../src/core/agent/state.ts';
import { readToAgent, StateAssembly } from '../../../src/core/agent/to-agent.ts';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import { parseBoundedJson } from '../../../src/core/json/strict-json.ts';
import { identityItemProblem } from '../../../src/trust/agent/identity-items.ts';
import {
  decidersOf,
  lubeck,
  type SiteObject,
  storeOf,
} from '../../../src/trust/agents/state/test-site-objects.ts';
import { decideAccess } from '../../../src/trust/authorization/ext-authz.ts';
import { StoreEntries } from '../../../src/trust/workload/entries/store-entries.ts';
import { givenBundles } from '../../../src/trust/workload/given-bundles.ts';
import type { Target } from '../target.ts';

const words = ['identities', 'workloadentries', 'spiffefederations', 'lubeck.example', '\0'];

/** The moment at which the agent decides. */
const nowMs = Date.parse('2026-06-01T00:00:00Z');

/** A list of objects, as the agent applies them: all of them, or none. */
function readItems(input: Buffer): readonly SiteObject[] {
  const refuse = (why: string): HansaError => new HansaError('HANSA_BAD_REQUEST', why);
  let list: unknown;
  try {
    list = parseBoundedJson(input);
  } catch {
    throw refuse('not JSON');
  }
  if (!Array.isArray(list)) throw refuse('not a list');
  const items = new Map<string, SiteObject>();
  for (const one of list as readonly unknown[]) {
    const { collection, name, object } = (one ?? {}) as Partial<SiteObject>;
    if (typeof collection !== 'string' || typeof name !== 'string') throw refuse('no name');
    const value = Buffer.from(JSON.stringify(object ?? null));
    const problem = identityItemProblem({ collection, name, value }, lubeck);
    if (problem !== undefined) throw refuse(problem);
    items.set(`${collection}/${name}`, { collection, name, object: object ?? {} });
  }
  return [...items.values()];
}

/** What the services of the agent do with its objects. None of it may throw. */
function decide(objects: readonly SiteObject[]): void {
  const store = storeOf(objects);
  const { bundles, federationState } = decidersOf(store, { now: () => nowMs });
  const entries = new StoreEntries({ store, trustDomain: lubeck }).index.match(['unix:uid:1']);
  const steps = givenBundles(entries, federationState.current, nowMs, () => undefined);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  for (const name of federationState.current.federations) {
    bundles.bundleFor(TrustDomain.parse(name));
  }
  for (const offer of federationState.current.offers.keys()) {
    const principal = 'spiffe://bruges.example/web';
    const question = { principal, certificate: '', sourceAddress: '192.0.2.1', method: 'GET' };
    decideAccess(
      { ...question, offer },
      {
        askers: entries,
        federationState: federationState.current,
        bundles,
        nowMs,
      },
    );
  }
}

export const agentTargets: readonly Target[] = [
  {
    name: 'from-agent',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes: maxFromAgentBytes,
    run: (input) => {
      const message = parseFromAgent(input);
      if (message.kind !== 'hello') return;
      const items = message.hello.held?.items ?? [];
      if (new Set(items.map((item) => keyOf(item))).size < items.length) {
        throw new TypeError('two held items have the same name');
      }
    },
  },
  {
    name: 'to-agent',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes: maxToAgentBytes,
    run: (input) => {
      const message = readToAgent(input);
      if (message.case === 'state') new StateAssembly().add(message.part, input.byteLength);
    },
  },
  {
    name: 'agent-objects',
    grammar: 'json',
    dictionary: [
      ...words,
      'federationpeers',
      'federationgrants',
      'serviceoffers',
      'unrestricted',
      'grantedTo',
      '*',
    ],
    maxBytes: 64 * 1024,
    run: (input) => decide(readItems(input)),
  },
];
