import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { managedByLabel, manager, originKey } from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import { countSlices, followSources, type SliceListener } from './slice-feed.ts';
import type { SyncedMember } from './synced-member.ts';

const source = { metadata: { name: 'web-1', namespace: 'shop' } } as EndpointSlice;
const derived = {
  metadata: {
    name: 'web-2',
    namespace: 'shop',
    labels: { [managedByLabel]: manager },
    annotations: { [originKey]: 'app2' },
  },
} as unknown as EndpointSlice;

function member() {
  const listeners = new Set<SliceListener>();
  const slices = {
    onChange: (listener: SliceListener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  } as unknown as SyncedMember['slices'];
  const tell = (change: Pick<ObjectChange<EndpointSlice>, 'old' | 'new'>): void => {
    for (const listener of listeners) listener({ key: 'k', ...change });
  };
  return { slices, listeners, tell };
}

test('all who follow a member share one listener, and hear of sources only', () => {
  const { slices, listeners, tell } = member();
  const heard: string[] = [];
  const stops = ['first', 'second'].map((name) =>
    followSources({ slices }, () => heard.push(name)),
  );
  assert.equal(listeners.size, 1);
  tell({ old: undefined, new: derived });
  tell({ old: derived, new: derived });
  assert.deepEqual(heard, []);
  tell({ old: undefined, new: source });
  // A user made a source of it, or took it away.
  tell({ old: source, new: derived });
  tell({ old: derived, new: source });
  tell({ old: source, new: undefined });
  assert.deepEqual(heard, Array.from({ length: 4 }, () => ['first', 'second']).flat());
  stops[0]?.();
  assert.equal(listeners.size, 1);
  stops[1]?.();
  assert.equal(listeners.size, 0);
});

test('who counts hears of all slices, and before those who follow', () => {
  const { slices, listeners, tell } = member();
  const heard: string[] = [];
  const follow = () => followSources({ slices }, () => heard.push('follower'));
  const stopFirst = follow();
  const stopCounter = countSlices({ slices }, () => heard.push('counter'));
  tell({ old: undefined, new: source });
  tell({ old: undefined, new: derived });
  assert.deepEqual(heard, ['counter', 'follower', 'counter']);
  stopFirst();
  stopCounter();
  assert.equal(listeners.size, 0);
  // It can be followed again.
  const stop = follow();
  tell({ old: source, new: source });
  assert.equal(heard.at(-1), 'follower');
  stop();
  stop();
  assert.equal(listeners.size, 0);
});

test('a listener that fails keeps no other from hearing', () => {
  const { slices, tell } = member();
  let heard = 0;
  const failing: SliceListener = () => {
    throw new Error('for the test');
  };
  countSlices({ slices }, failing);
  followSources({ slices }, failing);
  followSources({ slices }, () => heard++);
  assert.throws(() => tell({ old: undefined, new: source }), /for the test/);
  assert.equal(heard, 1);
});
