import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { epochAnnotation, managedByLabel, vmAnnotation, vmManager } from '../names.ts';
import type { Namespace } from '../objects.ts';
import { machine } from './test-machines.ts';
import { VmEvents } from './vm-events.ts';
import { machineKey, vmServiceKey } from './vm-keys.ts';
import { type VmMember, VmTerm } from './vm-term.ts';

const empty = {
  byKey: () => undefined,
  byIndex: () => [],
  objects: () => [],
  isSynced: true,
  onChange: () => () => undefined,
};

/** As a site wrote it for machines that are gone. */
const left = {
  metadata: {
    name: 'left',
    namespace: 'shop',
    labels: { [managedByLabel]: vmManager },
    annotations: { [vmAnnotation]: 'left', [epochAnnotation]: '7' },
  },
  spec: {},
};

test('a namespace that is known after its machines and VM Services adds them again', () => {
  const listeners: ((change: ObjectChange<Namespace>) => void)[] = [];
  const member = {
    clusterID: 'north',
    isRead: true,
    client: {},
    services: { ...empty, objects: () => [left] },
    slices: empty,
    virtualMachines: { ...empty, objects: () => [machine('web-1')] },
    namespaces: {
      ...empty,
      onChange: (listener: (change: ObjectChange<Namespace>) => void) => {
        listeners.push(listener);
        return () => undefined;
      },
    },
  } as unknown as VmMember;
  const added = new Set<string>();
  const sink = { add: (key: string) => void added.add(key) };
  const options = { member, clock: new VirtualClock(), namespace: 'hansa-system' };
  const events = new VmEvents(new VmTerm(options, sink));
  added.clear();
  for (const listener of listeners) listener({ key: 'other', old: undefined, new: undefined });
  assert.deepEqual([...added], []);
  for (const listener of listeners) listener({ key: 'shop', old: undefined, new: undefined });
  assert.deepEqual(
    [...added].toSorted(),
    [machineKey('shop/web-1'), vmServiceKey('shop/left'), vmServiceKey('shop/web')].toSorted(),
  );
  events.stop();
});
