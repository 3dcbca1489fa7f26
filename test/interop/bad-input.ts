// Fixed transcripts of invalid requests, one list per topic. The expected responses come from
// kube-apiserver (the oracle), so this file contains none.

import { type Query, widgets } from './transcript.ts';
import type { Play } from './compare.ts';
import type { Story } from './story.ts';

const collection = '/apis/hansa.dev/v1alpha1/widgets';
const one = `${collection}/one`;

function raw(
  method: string,
  path: string,
  body?: string | object,
  headers: Readonly<Record<string, string>> = {},
): Play {
  return {
    op: 'raw',
    method,
    path,
    headers,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  };
}

const json = { 'content-type': 'application/json' };
const yaml = { 'content-type': 'application/yaml' };
const merge = { 'content-type': 'application/merge-patch+json' };
const jsonPatch = { 'content-type': 'application/json-patch+json' };
const applyPatch = { 'content-type': 'application/apply-patch+yaml' };

function sound(name: string, more: object = {}): object {
  return {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Widget',
    metadata: { name },
    spec: { title: 'ash', ...more },
  };
}

function put(name: string, base: 'current' | 'stale' | 'none', query: Query = {}): Play {
  return {
    op: 'update',
    subject: widgets,
    name,
    status: false,
    base,
    changes: { spec: { title: 'elm', size: base === 'stale' ? 8 : 9 } },
    query,
  };
}

const setUp: readonly Play[] = [
  { op: 'create', subject: widgets, body: sound('one') as never, query: {} },
];
const tearDown: readonly Play[] = [
  raw('PATCH', one, { metadata: { finalizers: null } }, merge),
  raw('DELETE', collection),
];

/** What the decoder of metadata refuses, drops, or sets right; several at once say which it names. */
const wrongMetadata: readonly object[] = [
  { creationTimestamp: 'long ago' },
  { creationTimestamp: 7 },
  { creationTimestamp: null },
  { creationTimestamp: '' },
  { creationTimestamp: {} },
  { creationTimestamp: '2020-01-01' },
  { deletionTimestamp: 'soon' },
  { deletionTimestamp: 7 },
  { deletionTimestamp: '2020-01-01T00:00:00Z' },
  { deletionGracePeriodSeconds: 'x' },
  { deletionGracePeriodSeconds: 5 },
  { deletionGracePeriodSeconds: 1.5 },
  { resourceVersion: 'zero' },
  { resourceVersion: 5 },
  { resourceVersion: '0' },
  { resourceVersion: '' },
  { resourceVersion: '-1' },
  { resourceVersion: '18446744073709551615' },
  { resourceVersion: '18446744073709551616' },
  { resourceVersion: '007' },
  { resourceVersion: 'zero', uid: 'other' },
  { generation: 'x' },
  { generation: 1e30 },
  { generation: 1.5 },
  { uid: 7 },
  { uid: 'other' },
  { selfLink: 5 },
  { namespace: 5 },
  { generateName: 5 },
  { labels: 5 },
  { labels: { a: 1 }, annotations: { b: 2 } },
  { annotations: { b: 2 }, labels: { a: 1 } },
  { labels: { z: 1, a: 2 } },
  { finalizers: 'x', annotations: 5 },
  { finalizers: [1] },
  { ownerReferences: {} },
  { ownerReferences: [{ kind: 5 }] },
  { uid: 7, generation: 'x' },
  { resourceVersion: 5, generation: 'x', uid: 7 },
  { creationTimestamp: 'long ago', labels: 5 },
  { creationTimestamp: 'long ago', resourceVersion: 'zero' },
  { annotations: 5, creationTimestamp: 'long ago' },
  { labels: { z: true, a: 2 } },
  { ownerReferences: [{ uid: 5, kind: true }] },
  { finalizers: [true, 1] },
  { managedFields: 5 },
  { managedFields: {} },
  { managedFields: [{ time: 'noon' }] },
  { managedFields: [{ time: 'noon', manager: 5 }] },
  { labels: 5, managedFields: [{ manager: 5, time: 5 }] },
];

const chapters: Readonly<Record<string, readonly Play[]>> = {
  'malformed JSON': [
    raw('POST', collection, '{'),
    raw('POST', collection, ''),
    raw('POST', collection, 'null'),
    raw('POST', collection, '[]'),
    raw('POST', collection, '"text"'),
    raw('POST', collection, '7'),
    raw('POST', collection, '{}'),
    raw('POST', collection, '{"apiVersion":"hansa.dev/v1alpha1"}'),
    raw('POST', collection, '{"kind":"Widget"}'),
    raw('POST', collection, `${JSON.stringify(sound('two'))} trailing`),
    raw('POST', collection, `${JSON.stringify(sound('two'))}{}`),
    raw('POST', collection, '{"apiVersion":"hansa.dev/v1alpha1","kind":"Widget","spec":{"a":}}'),
    raw('POST', collection, '{"apiVersion":"hansa.dev/v1alpha1","kind":"Widget","spec":{"a":01}}'),
    raw('POST', collection, '{"apiVersion":"hansa.dev/v1alpha1","kind":"Widget","metadata":[]}'),
    raw(
      'POST',
      collection,
      '{"apiVersion":"hansa.dev/v1alpha1","kind":"Widget","metadata":{"name":5}}',
    ),
    raw('POST', collection, '{"apiVersion":7,"kind":"Widget"}'),
    raw('PUT', one, '{'),
    raw('PUT', one, ''),
    raw('PUT', one, '{}'),
    raw('PATCH', one, '{', merge),
    raw('PATCH', one, '', merge),
    raw('PATCH', one, '[]', merge),
    raw('PATCH', one, 'null', merge),
    raw('PATCH', one, '"x"', merge),
    raw('PATCH', one, '{', jsonPatch),
    raw('PATCH', one, '{}', jsonPatch),
    raw('PATCH', one, '[{}]', jsonPatch),
    raw('PATCH', one, '[{"op":"add","path":"/spec/size"}]', jsonPatch),
    raw('PATCH', one, '[{"op":"test","path":"/spec/size","value":99}]', jsonPatch),
    raw('PATCH', one, '[{"op":"remove","path":"/spec/none"}]', jsonPatch),
    raw('PATCH', one, '[{"op":"replace","path":"/spec/none/deeper","value":1}]', jsonPatch),
    raw('DELETE', one, '{', json),
    raw('DELETE', one, '{"kind":"Widget","apiVersion":"hansa.dev/v1alpha1"}', json),
    raw('DELETE', one, '{"propagationPolicy":7}', json),
  ],
  'malformed YAML': [
    raw('POST', collection, 'a: [', yaml),
    raw('POST', collection, 'a: 1\n\tb: 2', yaml),
    raw('POST', collection, '', yaml),
    raw('POST', collection, '- a\n- b\n', yaml),
    raw(
      'POST',
      collection,
      'apiVersion: hansa.dev/v1alpha1\nkind: Widget\nspec: {title: ash}\n',
      yaml,
    ),
    raw(
      'POST',
      collection,
      'apiVersion: hansa.dev/v1alpha1\nkind: Widget\nmetadata: {name: y}\nspec: {title: ash, title: elm}\n',
      yaml,
    ),
    raw('PATCH', `${one}?fieldManager=m`, 'a: [', applyPatch),
    raw('PATCH', `${one}?fieldManager=m`, '', applyPatch),
    raw('PATCH', `${one}?fieldManager=m`, '- a', applyPatch),
    raw('PATCH', `${one}?fieldManager=m`, 'spec: {title: ash}', applyPatch),
    raw(
      'PATCH',
      `${one}?fieldManager=m`,
      'apiVersion: hansa.dev/v1alpha1\nkind: Widget',
      applyPatch,
    ),
  ],
  'unknown and duplicate fields': ['Strict', 'Warn', 'Ignore', 'Sometimes', ''].flatMap((mode) => {
    const query = `?fieldValidation=${mode}&dryRun=All`;
    const duplicate =
      '{"apiVersion":"hansa.dev/v1alpha1","kind":"Widget","metadata":{"name":"u"},"spec":{"title":"ash","title":"elm","size":1,"size":2}}';
    const surplus = { ...sound('u', { oops: 1, nested: { nope: { x: 1 } } }), extra: true };
    // One only: of several, kube-apiserver reports some or all, by the order of a Go map.
    const oneSurplus = sound('one', { oops: 1 });
    return [
      raw('POST', collection + query, surplus),
      raw('POST', collection + query, duplicate),
      raw('POST', collection + query, { ...surplus, metadata: { name: 'u', oops: 1 } }),
      raw('PATCH', one + query, { spec: { oops: 1 }, extra: true }, merge),
      raw('PATCH', one + query, '{"spec":{"size":1,"size":2}}', merge),
      raw('PATCH', one + query, '[{"op":"add","path":"/spec/oops","value":1}]', jsonPatch),
      raw('PATCH', `${one}${query}&fieldManager=m`, oneSurplus, applyPatch),
      raw('PATCH', `${one}${query}&fieldManager=m`, duplicate, applyPatch),
    ];
  }),
  'wrong kind, wrong group, wrong name': [
    raw('POST', collection, { ...sound('w'), kind: 'Role' }),
    raw('POST', collection, { ...sound('w'), kind: 'widget' }),
    raw('POST', collection, { ...sound('w'), kind: 'WidgetList' }),
    raw('POST', collection, { ...sound('w'), apiVersion: 'v1' }),
    raw('POST', collection, { ...sound('w'), apiVersion: 'hansa.dev/v1' }),
    raw('POST', collection, { ...sound('w'), apiVersion: 'other.dev/v1alpha1' }),
    raw('POST', collection, { ...sound('w'), apiVersion: 'a/b/c' }),
    raw('PUT', one, { ...sound('one'), kind: 'Role' }),
    raw('PUT', one, { ...sound('one'), apiVersion: 'other.dev/v1' }),
    raw('PUT', one, sound('other')),
    raw('PUT', one, sound('')),
    raw('PATCH', `${one}?fieldManager=m`, sound('other'), applyPatch),
    raw('PATCH', `${one}?fieldManager=m`, { ...sound('one'), kind: 'Role' }, applyPatch),
    raw('PATCH', `${one}?fieldManager=m`, { ...sound('one'), apiVersion: 'x/v1' }, applyPatch),
    raw('PATCH', one, sound('one'), applyPatch),
    raw('PATCH', `${one}?fieldManager=`, sound('one'), applyPatch),
    raw('PATCH', `${one}?fieldManager=m&force=perhaps`, sound('one'), applyPatch),
    raw('PATCH', `${one}?fieldManager=${'m'.repeat(129)}`, sound('one'), applyPatch),
    raw('PATCH', `${one}?fieldManager=a%07b`, { spec: { size: 4 } }, merge),
    raw('PATCH', `${one}?force=true`, { spec: { size: 4 } }, merge),
    raw('PATCH', one, { kind: 'Role' }, merge),
    raw('PATCH', one, { kind: '' }, merge),
    raw('PATCH', one, { kind: 'Role', surplus: 1, spec: { oops: 1 } }, merge),
    raw('PATCH', one, { apiVersion: 'other.dev/v1alpha1', spec: { oops: 1 } }, merge),
    raw('POST', `${collection}?fieldValidation=Strict`, {
      ...sound('w', { oops: 1 }),
      kind: 'Role',
    }),
    raw('PATCH', one, { apiVersion: 'x/v1' }, merge),
    raw('PATCH', one, { metadata: { name: 'other' } }, merge),
    raw('PATCH', one, { metadata: { uid: 'other' } }, merge),
    raw('PATCH', one, { metadata: { namespace: 'other' } }, merge),
    raw('PATCH', one, { metadata: null }, merge),
    raw('POST', collection, sound('Upper')),
    raw('POST', collection, sound('under_score')),
    raw('POST', collection, sound('-dash')),
    raw('POST', collection, sound('a..b')),
    raw('POST', collection, sound('')),
    raw('POST', collection, sound('x'.repeat(254))),
    raw('POST', collection, { ...sound(''), metadata: {} }),
    raw('POST', collection, sound('one')),
    raw('GET', '/apis/hansa.dev/v1alpha1/gadgets'),
    raw('GET', '/apis/hansa.dev/v1alpha1/gadgets/x'),
    raw('GET', '/apis/hansa.dev/v9/widgets'),
    raw('GET', '/apis/other.dev/v1alpha1/widgets'),
    raw('GET', '/apis/hansa.dev/v1alpha1/widgets/none'),
    raw('GET', '/apis/hansa.dev/v1alpha1/widgets/one/scale'),
    raw('GET', '/apis/hansa.dev/v1alpha1/widgets/one/nothing'),
    raw('GET', '/apis/hansa.dev/v1alpha1/namespaces/default/widgets'),
    raw('POST', one, sound('one')),
    raw('PUT', collection, sound('one')),
    raw('PATCH', collection, {}, merge),
    raw('PUT', `${collection}/none`, sound('none')),
    raw('DELETE', `${collection}/none`),
    raw('OPTIONS', collection),
    raw('TRACE', collection),
  ],
  'media types': [
    raw('POST', collection, 'x', { 'content-type': 'text/plain' }),
    raw('POST', collection, sound('m'), { 'content-type': 'application/xml' }),
    raw('POST', collection, sound('m'), { 'content-type': 'not a media type' }),
    raw('POST', `${collection}?dryRun=All`, sound('m'), {
      'content-type': 'application/json; charset=utf-8',
    }),
    raw('POST', `${collection}?dryRun=All`, sound('m'), { 'content-type': '' }),
    raw('PUT', one, 'x', { 'content-type': 'text/plain' }),
    raw('PATCH', one, {}, json),
    raw('PATCH', one, {}, { 'content-type': 'application/strategic-merge-patch+json' }),
    raw('PATCH', one, {}, { 'content-type': 'text/plain' }),
    raw('PATCH', one, {}, { 'content-type': 'application/merge-patch+json; charset=utf-8' }),
    raw('PATCH', `${one}?fieldManager=m`, {}, { 'content-type': 'application/apply-patch+cbor' }),
    raw('GET', one, undefined, { accept: 'text/html' }),
    raw('GET', one, undefined, { accept: 'application/xml,text/*' }),
    raw('GET', one, undefined, { accept: '*/*' }),
    raw('GET', one, undefined, { accept: 'application/*' }),
    raw('GET', one, undefined, { accept: 'application/json;as=Table;v=v9;g=meta.k8s.io' }),
    raw('GET', one, undefined, { accept: 'application/json;as=Chair;v=v1;g=meta.k8s.io' }),
    raw('GET', one, undefined, {
      accept: 'application/json;as=Chair;v=v1;g=meta.k8s.io,application/json',
    }),
    raw('GET', one, undefined, {
      accept: 'application/vnd.kubernetes.protobuf,application/json',
    }),
    raw('GET', one, undefined, { accept: 'application/json;q=0.1,application/yaml;q=0.9' }),
    raw('GET', collection, undefined, {
      accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json',
    }),
  ],
  'selectors, limits and continue': [
    raw('GET', `${collection}?labelSelector=a%20b`),
    raw('GET', `${collection}?labelSelector=a%20in`),
    raw('GET', `${collection}?labelSelector=a%20in%20()`),
    raw('GET', `${collection}?labelSelector=%3Da`),
    raw('GET', `${collection}?labelSelector=a%3Db%3Dc`),
    raw('GET', `${collection}?labelSelector=bad%20key%21%3Dx`),
    raw('GET', `${collection}?labelSelector=a%3Dbad%21value`),
    raw('GET', `${collection}?labelSelector=a%3E5`),
    raw('GET', `${collection}?labelSelector=a%3Ex`),
    raw('GET', `${collection}?labelSelector=%2C%2C`),
    raw('GET', `${collection}?fieldSelector=spec.size%3D3`),
    raw('GET', `${collection}?fieldSelector=nonsense`),
    raw('GET', `${collection}?fieldSelector=metadata.name%3Done`),
    raw('GET', `${collection}?fieldSelector=metadata.namespace%3Done`),
    raw('GET', `${collection}?fieldSelector=metadata.name%21%3Done,spec.color%3Dred`),
    raw('GET', `${collection}?fieldSelector=%3D`),
    raw('GET', `${collection}?limit=x`),
    raw('GET', `${collection}?limit=-1`),
    raw('GET', `${collection}?limit=0`),
    raw('GET', `${collection}?limit=99999999999999999999`),
    raw('GET', `${collection}?limit=1&continue=rubbish`),
    raw('GET', `${collection}?limit=1&continue=e30`),
    raw(
      'GET',
      `${collection}?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0`,
    ),
    raw('GET', `${collection}?continue=rubbish&resourceVersion=1`),
    raw('DELETE', `${collection}?labelSelector=a%20in&dryRun=All`),
    raw('DELETE', `${collection}?fieldSelector=spec.size%3D3&dryRun=All`),
  ],
  'resource versions': [
    raw('GET', `${collection}?resourceVersion=zero`),
    raw('GET', `${collection}?resourceVersion=-1`),
    raw('GET', `${collection}?resourceVersion=0`),
    raw('GET', `${collection}?resourceVersion=1&resourceVersionMatch=NotOlderThan`),
    raw('GET', `${collection}?resourceVersion=0&resourceVersionMatch=Exact`),
    raw('GET', `${collection}?resourceVersionMatch=Exact`),
    raw('GET', `${collection}?resourceVersion=1&resourceVersionMatch=Sometimes`),
    raw('GET', `${collection}?resourceVersion=999999999`),
    raw('GET', `${one}?resourceVersion=zero`),
    raw('GET', `${one}?resourceVersion=0`),
    raw('GET', `${one}?resourceVersion=999999999`),
    raw('GET', `${collection}?watch=true&timeoutSeconds=1&resourceVersion=zero`),
    raw('GET', `${collection}?watch=true&timeoutSeconds=1&resourceVersion=1`),
    raw('GET', `${collection}?watch=maybe&timeoutSeconds=1`),
    raw('GET', `${collection}?watch=true&timeoutSeconds=x`),
    raw('GET', `${collection}?watch=true&timeoutSeconds=1&labelSelector=a%20in`),
    raw('GET', `${collection}?watch=true&timeoutSeconds=1&fieldSelector=spec.size%3D3`),
    raw('GET', `${collection}?watch=true&timeoutSeconds=1&sendInitialEvents=true`),
    raw(
      'GET',
      `${collection}?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`,
    ),
    raw('GET', `${collection}?watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan`),
    raw('GET', `${one}?watch=true&timeoutSeconds=1`),
    put('one', 'current'),
    put('one', 'stale'),
    put('one', 'none'),
    {
      op: 'raw',
      method: 'PUT',
      path: one,
      body: JSON.stringify({ ...sound('one'), metadata: { name: 'one', resourceVersion: 'zero' } }),
    },
    {
      op: 'raw',
      method: 'PUT',
      path: one,
      body: JSON.stringify({ ...sound('one'), metadata: { name: 'one', resourceVersion: '0' } }),
    },
    raw('PATCH', one, { metadata: { resourceVersion: '1' }, spec: { size: 1 } }, merge),
    raw('PATCH', one, { metadata: { resourceVersion: 'x' }, spec: { size: 1 } }, merge),
    raw(
      'PATCH',
      `${one}?fieldManager=m`,
      { ...sound('one'), metadata: { name: 'one', resourceVersion: '1' } },
      applyPatch,
    ),
    raw(
      'PATCH',
      `${collection}/none?fieldManager=m`,
      { ...sound('none'), metadata: { name: 'none', resourceVersion: '1' } },
      applyPatch,
    ),
    raw('POST', collection, { ...sound('v'), metadata: { name: 'v', resourceVersion: '7' } }),
    raw('DELETE', one, { preconditions: { resourceVersion: '1' } }, json),
    raw('DELETE', one, { preconditions: { uid: 'no-such' } }, json),
  ],
  'metadata of a wrong type': wrongMetadata.flatMap((metadata, index) => {
    const given = { ...sound('one'), metadata: { name: 'one', ...metadata } };
    const fresh = { ...sound('t'), metadata: { name: `t${index}`, ...metadata } };
    return [
      raw('POST', collection, { ...fresh, metadata: { ...metadata, name: `p${index}` } }),
      raw('PUT', `${one}?dryRun=All`, given),
      raw('PATCH', `${one}?dryRun=All`, { metadata }, merge),
      raw('PATCH', `${one}?dryRun=All&fieldManager=m`, given, applyPatch),
      raw('PATCH', `${collection}/t${index}?dryRun=All&fieldManager=m`, fresh, applyPatch),
      raw('PATCH', `${one}/status?dryRun=All&fieldManager=m`, given, applyPatch),
    ];
  }),
  'query parameters': [
    raw('POST', `${collection}?dryRun=Some`, sound('q')),
    raw('POST', `${collection}?dryRun=All&dryRun=All`, sound('q')),
    raw('POST', `${collection}?dryRun=`, sound('q')),
    raw('POST', `${collection}?dryRun=all`, sound('r')),
    raw('POST', `${collection}?dryRun=All&surprise=1`, sound('s')),
    raw('POST', `${collection}?fieldManager=${'x'.repeat(129)}`, sound('q')),
    raw('POST', `${collection}?dryRun=All&pretty=true`, sound('s')),
    raw('GET', `${one}?surprise=1`),
    raw('GET', `${one}?pretty=true`),
    raw('PUT', `${one}?dryRun=Some`, sound('one')),
    raw('PATCH', `${one}?dryRun=Some`, {}, merge),
    raw('DELETE', `${one}?dryRun=Some`),
    raw('DELETE', `${one}?propagationPolicy=Sideways`),
    raw('DELETE', `${one}?gracePeriodSeconds=x`),
    raw('DELETE', `${one}?gracePeriodSeconds=-1&dryRun=All`),
    raw('DELETE', `${one}?orphanDependents=true&propagationPolicy=Orphan`),
    raw('DELETE', `${one}?orphanDependents=maybe`),
  ],
  'large bodies': [
    raw('POST', collection, sound('l', { extra: 'x'.repeat(4 * 1024 * 1024) })),
    raw('PATCH', one, { spec: { extra: 'x'.repeat(4 * 1024 * 1024) } }, merge),
    raw(
      'PATCH',
      `${one}?fieldManager=m`,
      sound('one', { extra: 'x'.repeat(4 * 1024 * 1024) }),
      applyPatch,
    ),
    raw(
      'PATCH',
      one,
      JSON.stringify(
        Array.from({ length: 10_001 }, () => ({ op: 'test', path: '/kind', value: 'Widget' })),
      ),
      jsonPatch,
    ),
    raw('DELETE', one, { preconditions: { uid: 'x'.repeat(4 * 1024 * 1024) } }, json),
    raw('POST', collection, {
      ...sound('l'),
      metadata: { name: 'l', annotations: { a: 'x'.repeat(262_145) } },
    }),
    raw('POST', `${collection}?dryRun=All`, '['.repeat(20_000)),
    raw('POST', `${collection}?dryRun=All`, `{"a":${'['.repeat(20_000)}`),
  ],
};

/** Each chapter starts with one widget, `one`, and leaves nothing behind. */
export const badInput: readonly { readonly name: string; readonly story: Story }[] = Object.entries(
  chapters,
).map(([name, plays]) => ({
  name,
  story: { steps: [...setUp, ...plays], histories: [], cleanUp: tearDown },
}));
