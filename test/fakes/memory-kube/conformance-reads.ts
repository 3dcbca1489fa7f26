// The cases of the conformance suite about lists and watches: pages, versions, selectors, initial events,
// bookmarks and compaction.

import type { Case, Probe } from './kube-conformance.ts';
import { fieldsOf, textOf } from './stored-object.ts';

const configMap = (name: string, labels: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, labels },
});

/** ConfigMaps with these names; resolves to the version of the last one. */
async function fill(probe: Probe, names: readonly string[], labels: object = {}): Promise<string> {
  let version = '';
  for (const name of names) {
    const made = await probe.post(probe.path('configmaps'), configMap(name, labels));
    version = made.metadata.resourceVersion;
  }
  return version;
}

const tokenOf = (list: object): string => textOf(fieldsOf(fieldsOf(list)['metadata'])['continue']);

export const readCases: readonly Case[] = [
  {
    name: 'lists come in pages of one version',
    async play(probe) {
      const path = probe.path('configmaps');
      await fill(probe, ['c', 'a', 'b', 'e', 'd']);
      const first = await probe.get(path, { limit: '2' });
      await probe.delete(probe.path('configmaps', 'c'));
      await fill(probe, ['aa', 'f']);
      const second = await probe.get(path, { limit: '2', continue: tokenOf(first) });
      await probe.get(path, { limit: '2', continue: tokenOf(second) });
      await probe.get(path, { continue: tokenOf(first) });
      await probe.get(path, { limit: '100' });
      await probe.get(path, { limit: '2', continue: 'nonsense' });
      await probe.get(path, { limit: '2', continue: tokenOf(first), resourceVersion: '5' });
      await probe.get(path, { limit: '1', labelSelector: 'a!=b' });
    },
  },
  {
    name: 'lists of built-in kinds leave out the type of items, and have one of their own',
    async play(probe) {
      await probe.get(probe.path('configmaps'));
      await probe.get(probe.path('nativeservices'));
      await probe.get(probe.path('endpointslices'), { limit: '1' });
    },
  },
  {
    name: 'lists have the version that they are asked for',
    async play(probe) {
      const path = probe.path('configmaps');
      const early = await fill(probe, ['a']);
      const late = await fill(probe, ['b']);
      const notOlder = { resourceVersionMatch: 'NotOlderThan' };
      const exact = { resourceVersionMatch: 'Exact' };
      await probe.get(path, { resourceVersion: late, ...notOlder });
      await probe.get(path, { resourceVersion: early, ...exact });
      await probe.get(path, { resourceVersion: early, ...exact, limit: '1' });
      await probe.get(path, { resourceVersion: early, limit: '1' });
      await probe.get(path, exact);
      await probe.get(path, { resourceVersion: '0', ...exact });
      await probe.get(path, { resourceVersion: late, resourceVersionMatch: 'Other' });
      await probe.get(path, { sendInitialEvents: 'true' });
      await probe.get(path, { resourceVersion: 'x' });
      await probe.get(path, { resourceVersion: '4000000000', ...notOlder });
    },
  },
  {
    name: 'selectors select by labels and names',
    async play(probe) {
      const path = probe.path('configmaps');
      await fill(probe, ['a', 'b'], { app: 'web' });
      await fill(probe, ['c'], { app: 'db' });
      await fill(probe, ['d']);
      for (const labelSelector of ['app=web', 'app', '!app', 'app in (db,web)', 'app!=web']) {
        await probe.get(path, { labelSelector });
      }
      await probe.get(path, { fieldSelector: 'metadata.name=b' });
      await probe.get(path, { fieldSelector: 'metadata.name!=b' });
      await probe.get('/api/v1/configmaps', {
        fieldSelector: `metadata.namespace=${probe.namespace},metadata.name=a`,
      });
      await probe.get(path, { labelSelector: '==' });
      await probe.get(path, { fieldSelector: 'data.x=1' });
    },
  },
  {
    name: 'a watch sends each change after its version, once and in order',
    async play(probe) {
      const path = probe.path('configmaps');
      const version = await fill(probe, ['a']);
      await fill(probe, ['b']);
      await probe.patch(probe.path('configmaps', 'a'), { data: { x: '1' } });
      await probe.watch(path, { resourceVersion: version }, 5, async () => {
        await probe.patch(probe.path('configmaps', 'a'), { data: { x: '1' } });
        await probe.delete(probe.path('configmaps', 'b'));
        await fill(probe, ['b']);
        await probe.delete(probe.path('configmaps', 'a'));
      });
    },
  },
  {
    name: 'a watch with a selector sees objects come and go',
    async play(probe) {
      const path = probe.path('configmaps');
      const at = probe.path('configmaps', 'a');
      const version = await fill(probe, ['a', 'other']);
      const label = (app: string | null) => probe.patch(at, { metadata: { labels: { app } } });
      await probe.watch(
        path,
        { resourceVersion: version, labelSelector: 'app=web' },
        4,
        async () => {
          await label('web');
          await probe.patch(at, { data: { x: '1' } });
          await label('db');
          await label('web');
          await label(null);
        },
      );
      await probe.watch(
        path,
        { resourceVersion: version, fieldSelector: 'metadata.name=other' },
        1,
        async () => void (await probe.delete(probe.path('configmaps', 'other'))),
      );
    },
  },
  {
    name: 'a watch begins with all objects, and says when it has sent them on request',
    async play(probe) {
      const path = probe.path('configmaps');
      const version = await fill(probe, ['b', 'a']);
      await probe.watch(path, {}, 2);
      await probe.watch(path, { allowWatchBookmarks: 'true' }, 3);
      const initial = {
        sendInitialEvents: 'true',
        resourceVersionMatch: 'NotOlderThan',
        allowWatchBookmarks: 'true',
      };
      await probe.watch(path, initial, 3);
      await probe.watch(path, { ...initial, resourceVersion: version }, 4, async () => {
        await fill(probe, ['c']);
      });
      await probe.watch(path, { sendInitialEvents: 'true' }, 0);
      await probe.watch(path, { resourceVersionMatch: 'NotOlderThan' }, 0);
      await probe.watch(path, { resourceVersion: 'x' }, 0);
    },
  },
  {
    name: 'a watch ends when its time is over, and one from the future waits',
    async play(probe) {
      const path = probe.path('configmaps');
      const version = await fill(probe, ['a']);
      await probe.watch(path, { resourceVersion: version, timeoutSeconds: '1' }, 100, async () => {
        await fill(probe, ['b']);
      });
      await probe.watch(path, { resourceVersion: '4000000000', timeoutSeconds: '1' }, 100);
    },
  },
  {
    name: 'a watch of custom resources and of what is not served',
    async play(probe) {
      const path = probe.path('nativeservices');
      await probe.watch(path, {}, 2, async () => {
        const at = probe.path('nativeservices', 'a');
        await probe.post(path, {
          apiVersion: 'clusters.hansa.dev/v1alpha1',
          kind: 'NativeService',
          metadata: { name: 'a' },
          spec: { networkInterfaces: [{ internalIP: '10.0.0.1' }], ports: [{ port: 80 }] },
        });
        await probe.delete(at);
      });
      await probe.watch('/apis/example.com/v1/widgets', {}, 0);
    },
  },
  {
    name: 'versions that the history has lost are gone',
    async play(probe) {
      // The cache of kube-apiserver for a CRD does not reach back to the first version.
      const path = probe.path('nativeservices');
      await fill(probe, ['a', 'b']);
      await probe.compact();
      await probe.watch(path, { resourceVersion: '1' }, 1);
      await probe.get(path, { resourceVersion: '1', resourceVersionMatch: 'Exact' });
    },
  },
];
