// Random transcripts of the resource API: operations of clients on a few objects, as data. A step
// refers to values by name ("the resourceVersion before the last one of widget a"), because each
// server has its own values. The ledger of each server fills them in when the step is sent. The
// same seed always gives the same transcript.

import type { Json } from '../../src/api/object.ts';
import { type Body, metadata, roleSpec, spoil, widgetSpec, widgetStatus } from './bodies.ts';
import { Dice } from './dice.ts';

/** A resource of the transcripts. */
export interface Subject {
  readonly kind: string;
  readonly plural: string;
  readonly hasStatus: boolean;
  readonly spec: (dice: Dice, whole: boolean) => Body;
  readonly selectors: readonly string[];
}

export const widgets: Subject = {
  kind: 'Widget',
  plural: 'widgets',
  hasStatus: true,
  spec: widgetSpec,
  selectors: ['spec.color=red', 'spec.color!=blue,metadata.name!=a', 'spec.size=3'],
};

export const roles: Subject = {
  kind: 'Role',
  plural: 'roles',
  hasStatus: false,
  spec: roleSpec,
  selectors: ['metadata.name=a', 'metadata.namespace=x'],
};

export type Query = Readonly<Record<string, string>>;

/** Which of the versions that a side has seen of an object a step builds on. */
export type Base = 'current' | 'stale' | 'none';

export type Step =
  | { readonly op: 'create'; readonly subject: Subject; readonly body: Body; readonly query: Query }
  | {
      readonly op: 'update';
      readonly subject: Subject;
      readonly name: string;
      readonly status: boolean;
      /** 'none': the version that is current, but without a resourceVersion. */
      readonly base: Base;
      /** Merged over the object that the side saw last: null removes, objects are replaced. */
      readonly changes: Readonly<Record<string, Json>>;
      readonly query: Query;
    }
  | {
      readonly op: 'patch';
      readonly subject: Subject;
      readonly name: string;
      readonly status: boolean;
      readonly type: 'json' | 'merge' | 'apply';
      readonly body: Json;
      /** The resourceVersion that a merge or apply patch carries, if any. */
      readonly base: Base;
      readonly query: Query;
    }
  | {
      readonly op: 'delete';
      readonly subject: Subject;
      readonly name: string;
      readonly uid?: 'right' | 'wrong';
      readonly base: Base;
      readonly options: Body;
      readonly query: Query;
    }
  | {
      readonly op: 'read';
      readonly subject: Subject;
      /** undefined lists. */
      readonly name?: string;
      readonly accept: string;
      readonly query: Query;
    }
  | { readonly op: 'delete-all'; readonly subject: Subject; readonly query: Query };

/** Few names, so that steps meet; the last one is never created but by apply. */
const names = ['a', 'b', 'c', 'd'] as const;
const managers = ['alpha', 'beta', 'gamma'] as const;
const apiVersion = 'hansa.dev/v1alpha1';

/** How often a body has one thing wrong. */
const FAULT_RATE = 0.2;

export function generateTranscript(
  seed: number,
  length: number,
  subjects: readonly Subject[],
): readonly Step[] {
  const dice = new Dice(seed);
  return Array.from({ length }, () => step(dice, dice.pick(subjects)));
}

function step(dice: Dice, subject: Subject): Step {
  const kind = dice.weighted([
    [18, create],
    [16, update],
    [10, mergePatch],
    [10, jsonPatch],
    [28, apply],
    [10, remove],
    [8, read],
    [1, removeAll],
  ] as const);
  return kind(dice, subject);
}

/** What every write may carry in its query. */
function writeQuery(dice: Dice): Query {
  return {
    ...(dice.chance(0.4) ? { fieldManager: dice.pick(managers) } : {}),
    ...(dice.chance(0.1) ? { dryRun: 'All' } : {}),
    ...(dice.chance(0.5) ? { fieldValidation: dice.pick(['Strict', 'Warn', 'Ignore']) } : {}),
  };
}

function whole(dice: Dice, subject: Subject, name: string): Body {
  const body: Body = {
    apiVersion,
    kind: subject.kind,
    metadata: { name, ...metadata(dice, { finalizers: true }) },
    spec: subject.spec(dice, true),
  };
  if (dice.chance(FAULT_RATE)) spoil(body, subject.kind, dice);
  return body;
}

function create(dice: Dice, subject: Subject): Step {
  return {
    op: 'create',
    subject,
    body: whole(dice, subject, dice.pick(names)),
    query: writeQuery(dice),
  };
}

function update(dice: Dice, subject: Subject): Step {
  const status = subject.hasStatus && dice.chance(0.3);
  const changed = whole(dice, subject, dice.pick(names));
  const { spec, metadata: meta, ...rest } = changed;
  const changes: Record<string, Json> = {};
  if (dice.chance(0.7) && spec !== undefined) changes['spec'] = spec;
  if (dice.chance(0.5) && typeof meta === 'object' && meta !== null && !Array.isArray(meta))
    for (const [key, value] of Object.entries(meta))
      if (key !== 'name') changes[`metadata.${key}`] = value;
  if (dice.chance(0.1)) changes['metadata.finalizers'] = null;
  if (dice.chance(0.05)) changes['metadata.managedFields'] = dice.pick<Json>([[], [{}], null]);
  if (dice.chance(0.03)) changes['metadata.name'] = 'other';
  if (status || dice.chance(0.1)) changes['status'] = widgetStatus(dice);
  // Of what a fault put at the root, all but the name of the kind goes along.
  for (const [key, value] of Object.entries(rest))
    if (value !== subject.kind && value !== apiVersion) changes[key] = value;
  return {
    op: 'update',
    subject,
    name: dice.pick(names),
    status,
    base: dice.weighted<Base>([
      [7, 'current'],
      [1.5, 'stale'],
      [1.5, 'none'],
    ]),
    changes,
    query: writeQuery(dice),
  };
}

function mergePatch(dice: Dice, subject: Subject): Step {
  const status = subject.hasStatus && dice.chance(0.3);
  const body: Body = {};
  if (dice.chance(0.8)) body['spec'] = withNulls(dice, subject.spec(dice, false));
  if (dice.chance(0.3)) body['metadata'] = metadata(dice, { finalizers: true });
  if (dice.chance(0.1)) body['metadata'] = { finalizers: null };
  if (status || dice.chance(0.1)) body['status'] = widgetStatus(dice);
  if (dice.chance(FAULT_RATE)) spoil(body, subject.kind, dice);
  return {
    op: 'patch',
    type: 'merge',
    subject,
    name: dice.pick(names),
    status,
    body,
    base: dice.weighted<Base>([
      [8, 'none'],
      [1, 'current'],
      [1, 'stale'],
    ]),
    query: writeQuery(dice),
  };
}

function withNulls(dice: Dice, spec: Body): Body {
  const fields = ['size', 'color', 'tags', 'ports', 'nested', 'labels', 'extra', 'title'];
  for (const field of dice.some(fields, 0.08)) spec[field] = null;
  return spec;
}

const pointers = [
  '/spec/title',
  '/spec/size',
  '/spec/color',
  '/spec/tags',
  '/spec/tags/0',
  '/spec/tags/-',
  '/spec/args/1',
  '/spec/ports/0',
  '/spec/ports/0/note',
  '/spec/nested/deep/b',
  '/spec/labels/ash',
  '/spec/labels/a~1b',
  '/spec/extra',
  '/spec/missing/below',
  '/spec/rules/0',
  '/spec/rules/-',
  '/metadata/labels',
  '/metadata/labels/app',
  '/metadata/finalizers',
  '/metadata/annotations',
  '/metadata/name',
  '/status/phase',
  '/status',
  '',
  'nopointer',
] as const;

/** Of an object whose spec a status patch has broken, kube-apiserver drops all ownership. */
const statusPointers = pointers.filter((pointer) => !pointer.startsWith('/spec/'));

function jsonPatch(dice: Dice, subject: Subject): Step {
  const values: readonly Json[] = [
    'ash',
    5,
    true,
    ['ash', 'fir'],
    { name: 'x', port: 1 },
    {},
    null,
  ];
  const status = subject.hasStatus && dice.chance(0.2);
  const reachable = status ? statusPointers : pointers;
  const operation = (): Body => {
    const op = dice.weighted([
      [5, 'add'],
      [3, 'replace'],
      [3, 'remove'],
      [2, 'test'],
      [1, 'copy'],
      [1, 'move'],
      [0.3, 'swap'],
    ] as const);
    const path = dice.pick(reachable);
    if (op === 'remove') return { op, path };
    if (op === 'copy' || op === 'move') return { op, from: dice.pick(reachable), path };
    // Empty maps in metadata are the oracle's own affair; see metadata() in bodies.ts.
    const value = dice.pick(values);
    const empty = path.startsWith('/metadata/') && JSON.stringify(value) === '{}';
    return { op, path, value: empty ? 'ash' : value };
  };
  const operations = Array.from({ length: 1 + dice.below(2) }, operation);
  return {
    op: 'patch',
    type: 'json',
    subject,
    name: dice.pick(names),
    status,
    body: dice.chance(0.04) ? { not: 'a list' } : operations,
    base: 'none',
    query: writeQuery(dice),
  };
}

function apply(dice: Dice, subject: Subject): Step {
  const status = subject.hasStatus && dice.chance(0.2);
  const name = dice.pick(names);
  const body: Body = { apiVersion, kind: subject.kind, metadata: { name } };
  if (dice.chance(0.95)) body['spec'] = subject.spec(dice, dice.chance(0.85));
  if (dice.chance(0.4)) body['metadata'] = { name, ...metadata(dice, { finalizers: true }) };
  if (status || dice.chance(0.05)) body['status'] = widgetStatus(dice);
  if (dice.chance(FAULT_RATE)) spoil(body, subject.kind, dice);
  return {
    op: 'patch',
    type: 'apply',
    subject,
    name: dice.chance(0.97) ? name : dice.pick(names),
    status,
    body,
    base: dice.weighted<Base>([
      [16, 'none'],
      [1, 'current'],
      [1, 'stale'],
    ]),
    query: {
      ...writeQuery(dice),
      ...(dice.chance(0.97) ? { fieldManager: dice.pick(managers) } : {}),
      ...(dice.chance(0.4) ? { force: dice.pick(['true', 'true', 'true', 'false']) } : {}),
    },
  };
}

function remove(dice: Dice, subject: Subject): Step {
  return {
    op: 'delete',
    subject,
    name: dice.pick(names),
    ...(dice.chance(0.2) ? { uid: dice.pick(['right', 'wrong'] as const) } : {}),
    base: dice.weighted<Base>([
      [8, 'none'],
      [1, 'current'],
      [1, 'stale'],
    ]),
    options: dice.weighted<Body>([
      [6, {}],
      [1, { propagationPolicy: 'Background' }],
      [0.5, { propagationPolicy: 'Sideways' }],
      [1, { gracePeriodSeconds: 0 }],
      [1, { gracePeriodSeconds: 30 }],
      [0.5, { dryRun: ['All'] }],
      [0.5, { dryRun: ['Some'] }],
    ]),
    query: dice.chance(0.1) ? { dryRun: 'All' } : {},
  };
}

function accept(dice: Dice, partial: string): string {
  const as = dice.weighted([
    [3, ''],
    [1, 'Table'],
    [1, partial],
  ]);
  return as === ''
    ? 'application/json'
    : `application/json;as=${as};v=v1;g=meta.k8s.io,application/json`;
}

function read(dice: Dice, subject: Subject): Step {
  if (dice.chance(0.5))
    return {
      op: 'read',
      subject,
      name: dice.pick(names),
      accept: accept(dice, 'PartialObjectMetadata'),
      query: {},
    };
  return {
    op: 'read',
    subject,
    accept: accept(dice, 'PartialObjectMetadataList'),
    query: {
      ...(dice.chance(0.3)
        ? { labelSelector: dice.pick(['app=ash', 'app in (ash,fir)', '!app', 'tier', 'app!=elm']) }
        : {}),
      ...(dice.chance(0.3) ? { fieldSelector: dice.pick(subject.selectors) } : {}),
      ...(dice.chance(0.2) ? { limit: dice.pick(['1', '2', '500']) } : {}),
    },
  };
}

function removeAll(dice: Dice, subject: Subject): Step {
  return {
    op: 'delete-all',
    subject,
    query: dice.chance(0.5) ? { labelSelector: 'app' } : {},
  };
}
