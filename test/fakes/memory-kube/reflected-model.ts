// Test fixture: a reflector of a model API server on a virtual clock, and a recorder of its changes.

import { silentLog } from '../../../src/core/log/test-log.ts';
import { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import { VirtualClock } from '../../../src/core/clock/virtual.ts';
import type { ObjectChange } from '../../../src/core/kube/reflector/object-cache.ts';
import { Reflector } from '../../../src/core/kube/reflector/reflector.ts';
import type { ReflectorOptions } from '../../../src/core/kube/reflector/reflector-options.ts';
import { type ModelObject, ModelServer } from './model-server.ts';

export interface Reflected {
  readonly server: ModelServer;
  readonly clock: VirtualClock;
  readonly reflector: Reflector<ModelObject, 'label'>;
  /** As `+a@2` for a new object, `~a@3` for a changed one, `-a` for a deleted one. */
  readonly heard: string[];
  readonly changes: ObjectChange<ModelObject>[];
  readonly failures: string[];
  readonly release: () => void;
}

export function reflect(
  server = new ModelServer(),
  options: Partial<ReflectorOptions<ModelObject, 'label'>> = {},
): Reflected {
  const clock = new VirtualClock();
  const heard: string[] = [];
  const changes: ObjectChange<ModelObject>[] = [];
  const failures: string[] = [];
  const reflector = new Reflector<ModelObject, 'label'>({
    client: server,
    cluster: 'model',
    path: '/api/v1/configmaps',
    indexes: { label: ({ metadata }) => Object.values(metadata.labels) },
    clock,
    random: new SeededRandom(1),
    log: silentLog,
    hooks: { failed: (reason) => void failures.push(reason) },
    ...options,
  });
  reflector.onChange((change) => {
    changes.push(change);
    heard.push(textOf(change));
  });
  return { server, clock, reflector, heard, changes, failures, release: reflector.acquire() };
}

function textOf({ key, old, new: now }: ObjectChange<ModelObject>): string {
  const name = key.replace('default/', '');
  if (now === undefined) return `-${name}`;
  return `${old === undefined ? '+' : '~'}${name}@${now.metadata.resourceVersion}`;
}

/** NAME@VERSION of all objects, sorted. */
export const cached = (reflector: Reflector<ModelObject, 'label'>): readonly string[] =>
  [...reflector.objects()].map(stamp).toSorted();
export const stored = (server: ModelServer): readonly string[] =>
  [...server.objects.values()].map(stamp).toSorted();

function stamp({ metadata }: ModelObject): string {
  return `${metadata.name}@${metadata.resourceVersion}`;
}
