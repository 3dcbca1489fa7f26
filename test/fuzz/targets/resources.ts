// Fuzz targets for the resource API: bodies, manifests, selectors and reviews.

import { allKinds, allPlanes } from '../../../src/test-planes.ts';
import { parseFieldSelector } from '../../../src/api/selectors/field-selector.ts';
import type { Kind } from '../../../src/api/kind.ts';
import { parseLabelSelector } from '../../../src/api/selectors/label-selector.ts';
import { decodeJsonPatch } from '../../../src/api/patch/json-patch.ts';
import { createRegistry } from '../../../src/api/registry.ts';
import { validateObject } from '../../../src/api/resource-schema.ts';
import { parseManifests } from '../../../src/cli/input/manifests.ts';
import { readReview } from '../../../src/server/http/kube-protobuf.ts';
import { readAsked } from '../../../src/server/routes/discovery-routes.ts';
import { decodeObject, parseBody } from '../../../src/server/resources/decode.ts';
import type { Target } from '../target.ts';

const options = {
  dryRun: false,
  manager: 'fuzz',
  fieldValidation: 'Strict',
  force: false,
} as const;
const registry = createRegistry(allKinds);
const converters = allPlanes.flatMap(({ manifests: convert }) => convert ?? []);
const fallback = registry.byKind('WorkloadEntry') as Kind;

const words = [
  'apiVersion',
  'hansa.dev/v1alpha1',
  'kind',
  ...allKinds.map(({ kind }) => kind),
  'metadata',
  'name',
  'spec',
  'status',
  'selectors',
  'unix:uid:0',
  'unix:path:/',
  'cgroup:/',
  'systemd:id:a.service',
  'managedFields',
  'ownerReferences',
  'finalizers',
  'creationTimestamp',
  '2026-01-01T00:00:00Z',
  '*',
];

const yamlWords = [
  '---',
  '...',
  '&a',
  '*a',
  '<<: *a',
  '!!binary',
  '? ',
  ': ',
  '- ',
  '|',
  '>',
  '\t',
  '{',
  '[',
  '#',
  '%YAML 1.1',
];

/** Decodes and validates it as the kind that it says it is. */
function decode(input: Buffer, contentType: string): void {
  const named = /"?kind"?: *"?([A-Za-z]+)/.exec(input.toString('latin1'))?.[1] ?? '';
  const kind = registry.byKind(named) ?? fallback;
  validateObject(
    kind,
    decodeObject(kind, input, contentType, options, () => undefined),
  );
}

export const resourceTargets: readonly Target[] = [
  {
    name: 'resource-json',
    grammar: 'json',
    dictionary: words,
    maxBytes: 200_000,
    run: (input) => decode(input, 'application/json'),
  },
  {
    name: 'resource-yaml',
    grammar: 'text',
    dictionary: [...words, ...yamlWords],
    maxBytes: 70_000,
    run: (input) => decode(input, 'application/yaml'),
  },
  {
    name: 'manifest',
    grammar: 'text',
    dictionary: [...words, ...yamlWords],
    maxBytes: 20_000,
    run: (input) => void parseManifests('file', input.toString('utf8'), { registry, converters }),
  },
  {
    name: 'json-patch',
    grammar: 'json',
    dictionary: [
      'op',
      'add',
      'remove',
      'replace',
      'move',
      'copy',
      'test',
      'path',
      'from',
      'value',
      '/-',
      '/~0~1',
    ],
    maxBytes: 20_000,
    run: (input) => void decodeJsonPatch(parseBody(input, 'application/json').value, 'Strict'),
  },
  {
    name: 'label-selector',
    grammar: 'text',
    dictionary: [
      '=',
      '==',
      '!=',
      ' in ',
      ' notin ',
      '(',
      ')',
      ',',
      '!',
      'a',
      'hansa.dev/a',
      '>',
      '<',
    ],
    maxBytes: 5_000,
    run: (input) => void parseLabelSelector(input.toString('utf8')),
  },
  {
    name: 'field-selector',
    grammar: 'text',
    dictionary: ['=', '==', '!=', ',', '\\', 'metadata.name', 'spec.spiffeID'],
    maxBytes: 5_000,
    run: (input) => void parseFieldSelector(fallback, input.toString('utf8')),
  },
  {
    name: 'review-json',
    grammar: 'json',
    dictionary: [
      'apiVersion',
      'authorization.k8s.io/v1',
      'kind',
      'SelfSubjectAccessReview',
      'spec',
      'resourceAttributes',
    ],
    maxBytes: 9_000,
    run: (input) => void readAsked(input, 'application/json'),
  },
  {
    name: 'kubernetes-review',
    grammar: 'bytes',
    dictionary: [
      'k8s\0',
      'SelfSubjectAccessReview',
      'SelfSubjectRulesReview',
      'authorization.k8s.io/v1',
    ],
    maxBytes: 5_000,
    run: (input) => void readReview(input),
  },
];
