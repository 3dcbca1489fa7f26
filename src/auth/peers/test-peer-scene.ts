// Test fixture: a site with a Cluster of a peer, and a peer that answers as told.

import assert from 'node:assert/strict';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { CallPeer } from '../../core/plane/call-peer.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import { clusterSite, type TestAnswer, testJwks, TestServer } from '../clusters/test-clusters.ts';
import { KeyCache, type KeyState } from '../keys/key-cache.ts';
import { KeyMemory } from '../keys/key-memory.ts';
import { recordRefusal } from './peer-refusal.ts';
import { peerKeys } from './peer-keys.ts';

export const issuer = 'https://kubernetes.default.svc.cluster.local';
const pathOf = (cluster: string): string => `/hansa/federation/v1/clusters/${cluster}/keys`;

export interface PeerChange {
  readonly uid?: string;
  readonly reenrolments?: number;
  readonly desiredState?: string;
  readonly state?: string;
  readonly cause?: string;
  readonly clusters?: readonly string[];
}

/** `keys` are names and numbers of test keys. Other fields replace those of a correct answer. */
type Answered =
  | 'silence'
  | 'refused'
  | { readonly status: number }
  | { readonly body: string }
  | {
      readonly keys: Readonly<Record<string, number>>;
      readonly cluster?: unknown;
      readonly issuer?: unknown;
      readonly ageSeconds?: unknown;
    };

export type PeerScene = Awaited<ReturnType<typeof peerScene>>;

/** The Cluster `far` is app1 of bruges.example, which is an active peer. */
export async function peerScene() {
  const site = await clusterSite();
  const { clock, random, transport, directory, store, prove } = site;
  const server = new TestServer();
  const asked: string[] = [];
  const refusals: AuditDraft[] = [];
  const find = (name: string): StoredCluster | undefined => directory.find(name);
  const callPeer: CallPeer = (peer, { path: at, timeoutMs, maxBytes, signal }) => {
    asked.push(`${peer} ${at}`);
    return server.answer(at, { clock, timeoutMs, maxBytes, ...(signal && { signal }) });
  };
  /** A process of the site. All share the store. */
  const start = (): KeyCache =>
    new KeyCache({
      clock,
      random,
      transport,
      find,
      prove,
      memory: new KeyMemory({ store, find, log: { warn: (text) => assert.fail(text) } }),
      peerKeys: peerKeys({ store, callPeer, site: 'spiffe://lubeck.example/hansa/site' }),
      fetched: (cluster, failure) => {
        if (failure?.reason === 'AnotherCluster')
          recordRefusal({ deny: (draft) => refusals.push(draft) }, cluster, failure.message);
      },
    });
  const settle = async <T>(work: Promise<T>): Promise<T> => {
    const settled = Promise.allSettled([work]);
    await clock.advance(20_000);
    const [one] = await settled;
    // What was fetched is stored by now.
    await new Promise((resolve) => setImmediate(resolve));
    if (one?.status === 'rejected') throw one.reason;
    return (one as PromiseFulfilledResult<T>).value;
  };
  const peer = async (change: PeerChange | undefined, name = 'bruges.example'): Promise<void> => {
    const at = { collection: federationPeerKind.plural, name };
    if (change === undefined) {
      await store.commit({ delete: [at] });
      return;
    }
    const { uid = 'u1', desiredState = 'active', state = 'active', ...status } = change;
    const object = {
      metadata: { name: at.name, uid },
      spec: { url: `https://${name}:8443`, desiredState },
      status: { state, clusters: ['app1'], ...status },
    };
    const bytes = Buffer.from(JSON.stringify(object));
    await store.commit({ put: [{ ...at, encode: () => bytes }] });
  };
  await peer({});
  await site.create('far', { issuer, peer: { trustDomain: 'bruges.example', cluster: 'app1' } });
  const scene = {
    site,
    clock,
    store,
    asked,
    refusals,
    keys: start(),
    peer,
    restart: (): void => {
      scene.keys.stop();
      scene.keys = start();
    },
    answer: (answer: Answered, cluster = 'app1'): void => {
      server.answers.set(pathOf(cluster), () => answerOf(answer, cluster));
    },
    cluster: (name = 'far'): StoredCluster => find(name) ?? assert.fail(name),
    fetch: (name = 'far') => settle(scene.keys.keepFresh(scene.cluster(name))),
    refresh: () => settle(scene.keys.refresh(scene.cluster())),
    ids: (name = 'far') => scene.keys.current(scene.cluster(name))?.keys.map(({ keyId }) => keyId),
    state: (): KeyState | undefined => scene.keys.stateOf(scene.cluster()),
  };
  return scene;
}

function answerOf(answer: Answered, cluster: string): TestAnswer {
  if (typeof answer === 'string') return answer;
  if ('status' in answer) return answer;
  if ('body' in answer) return { status: 200, body: answer.body };
  const { keys, ...fields } = answer;
  const own = { cluster, issuer, ageSeconds: 0, ...fields };
  return { status: 200, body: JSON.stringify({ ...own, ...JSON.parse(testJwks(keys)) }) };
}
