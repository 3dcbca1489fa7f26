// Shows manifests to a user: as lines before a question, and as YAML or JSON for other programs. Pure.

import type { CommandKit, OutputFormat } from '../../plane/command-kit.ts';
import type { Manifest } from './manifest.ts';
import { manifestName } from './manifest-path.ts';

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
  readonly verbs: readonly string[];
}

/** The name of each object, and the rights of each role. */
export function manifestLines(manifests: readonly Manifest[]): readonly string[] {
  return manifests.flatMap((manifest) => [
    `  ${manifestName(manifest)}`,
    ...((manifest['rules'] as readonly Rule[] | undefined) ?? []).map(
      (rule) => `    may ${ruleText(rule)}`,
    ),
  ]);
}

function ruleText({ apiGroups, resources, resourceNames, nonResourceURLs, verbs }: Rule): string {
  const groups = (apiGroups ?? []).filter((group) => group !== '');
  const things = nonResourceURLs ?? (resources ?? []).map((each) => [each, ...groups].join('.'));
  const which = resourceNames === undefined ? '' : `, only ${resourceNames.join(', ')}`;
  return `${verbs.join(', ')} ${things.join(', ')}${which}`;
}

type Renderer = Pick<CommandKit, 'renderValue'>;

/** YAML documents by default; one List in the formats that have no documents, as kubectl has it. */
export function manifestText(
  kit: Renderer,
  objects: readonly unknown[],
  output: OutputFormat,
): string {
  const list = kit.renderValue({ apiVersion: 'v1', kind: 'List', items: objects }, output);
  return list ?? yamlDocuments(kit, objects);
}

export function yamlDocuments(kit: Renderer, objects: readonly unknown[]): string {
  return objects
    .map((object) => (kit.renderValue(object, { format: 'yaml' }) ?? '').trimEnd())
    .join('\n---\n');
}
