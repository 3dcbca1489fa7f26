// Generates the pages of docs/reference from the code that they describe. Pure.

import type { Command } from 'commander';
import { referencePage } from '../../api/documents/reference.ts';
import type { Registry } from '../../api/registry.ts';
import { type PresetRole, presetRoles, tokenKind } from '../../core/access/presets.ts';
import { everything, type Rule } from '../../core/access/rules.ts';
import { catalogOf } from '../../core/errors/plane-errors.ts';
import type { Plane } from '../../core/plane/plane.ts';
import { configTable, flagOf, variableOf } from '../../server/config/keys.ts';
import { type RouteRow, whoMayCall } from '../../server/routes/route-rows.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { withoutGlobalOptionsLine } from '../output/help-page.ts';

export interface ReferenceSources {
  readonly program: Command;
  readonly registry: Registry;
  readonly planes: readonly Plane[];
  /** The text of /metrics of a running site. */
  readonly metrics: string;
  /** The same of those that only agents have. */
  readonly agentMetrics: string;
  /** All routes of a running site. */
  readonly routes: readonly RouteRow[];
}

const origin = '<!-- Written by `make docs`. Do not edit: change the code that it describes. -->\n';

/** The pages by path, relative to the folder of the reference. */
export function referencePages(sources: ReferenceSources): Map<string, string> {
  const { registry } = sources;
  const pages = new Map<string, string>();
  const add = (path: string, text: string): void => {
    pages.set(path, `${origin}\n${text.trimEnd()}\n`);
  };
  add('README.md', indexPage(registry));
  for (const kind of registry.kinds) add(`kinds/${kind.singular}.md`, referencePage(kind));
  add('commands.md', commandPage(sources.program));
  add('roles.md', rolesPage(sources));
  add('approvals.md', approvalsPage(sources.planes));
  add('configuration.md', configurationPage(sources.planes));
  add('errors.md', errorPage(sources.planes));
  add('metrics.md', metricsPage(sources.metrics, sources.agentMetrics));
  add('routes.md', routesPage(sources.routes));
  return pages;
}

function indexPage(registry: Registry): string {
  const kinds = registry.kinds.map(
    (kind) => `- [${kind.kind}](kinds/${kind.singular}.md): ${firstSentence(kind.description)}`,
  );
  return [
    '# Reference',
    '',
    '- [Commands](commands.md)',
    '- [Preset roles](roles.md)',
    '- [Actions that can need approval](approvals.md)',
    '- [Configuration](configuration.md)',
    '- [Error codes and exit codes](errors.md)',
    '- [Metrics](metrics.md)',
    '- [Routes](routes.md)',
    '',
    '## Kinds',
    '',
    ...kinds,
  ].join('\n');
}

function firstSentence(text: string): string {
  return /^.*?[.:](?=\s|$)/.exec(text)?.[0].replace(/:$/, '.') ?? text;
}

/** The actions for `spec.approvals` of the Site, with their defaults. */
function approvalsPage(planes: readonly Plane[]): string {
  const actions = planes.flatMap((plane) => plane.approvalActions ?? []);
  return [
    '# Actions that can need approval',
    '',
    'A rule in `spec.approvals` of the [Site](kinds/site.md) sets the mode of an action. Without a rule, the default applies.',
    '',
    '| action | meaning | default |',
    '|---|---|---|',
    ...actions.map(
      ({ action, description, mode }) => `| \`${action}\` | ${description} | \`${mode}\` |`,
    ),
    '| `KIND.create`, `KIND.update`, `KIND.delete` | Change a resource of this kind, for example `FederationGrant.create`. | `none` |',
  ].join('\n');
}

/** The preset roles, and the verbs that each has on each kind. */
function rolesPage({ registry: { kinds }, planes }: ReferenceSources): string {
  const guarded = [...kinds, tokenKind];
  const roles = presetRoles(
    guarded,
    planes.flatMap((plane) => plane.presets ?? []),
  );
  const verbsFor = ({ rules }: PresetRole, kind: string): string => {
    const held = rules.filter((rule) => rule.subresources === undefined && holdsKind(rule, kind));
    const verbs = [...new Set(held.flatMap((rule) => rule.verbs))];
    return verbs.includes(everything) ? 'everything' : verbs.join(', ');
  };
  const fields = kinds.flatMap(({ kind, plural, guardedFields = [] }) =>
    guardedFields.map((one) => {
      const right =
        'subresource' in one
          ? `the verb \`update\` on \`${plural}/${one.subresource}\``
          : `the verbs \`create\` and \`update\` on all \`${one.writes}\``;
      const { onlyFor } = one;
      const where =
        onlyFor === undefined ? kind : `${kind} with \`${onlyFor.item}\` in \`${onlyFor.field}\``;
      return `- \`${one.field}\` of ${where} needs ${right}, which only \`admin\` has.`;
    }),
  );
  return [
    '# Preset roles',
    '',
    'These roles exist on every site and cannot be changed. To allow other kinds and verbs, create a [Role](kinds/role.md).',
    '',
    ...table(
      ['role', 'meaning'],
      roles.map(({ name, description }) => [`\`${name}\``, description]),
    ),
    '',
    '## Verbs by kind',
    '',
    ...table(
      ['kind', ...roles.map(({ name }) => `\`${name}\``)],
      guarded.map(({ kind }) => [kind, ...roles.map((role) => verbsFor(role, kind))]),
    ),
    '',
    '## Fields that need an extra right',
    '',
    ...fields,
  ].join('\n');
}

function holdsKind(rule: Rule, kind: string): boolean {
  return rule.kinds.includes(everything) || rule.kinds.includes(kind);
}

function commandPage(program: Command): string {
  const lines = [
    '# Commands',
    '',
    'Every command also takes the global options of `hansa`, such as `--data-dir` and `--yes`.',
    '',
  ];
  const walk = (command: Command, path: string): void => {
    lines.push(`## ${path}`, '', '```text', helpOf(command), '```', '');
    for (const child of command.createHelp().visibleCommands(command)) {
      if (child.name() !== 'help') walk(child, `${path} ${child.name()}`);
    }
  };
  walk(program, program.name());
  return lines.join('\n');
}

function helpOf(command: Command): string {
  let text = '';
  const output = command.configureOutput();
  // Only outputHelp includes the text of addHelpText.
  command.configureOutput({
    ...output,
    writeOut: (piece) => {
      text += piece;
    },
  });
  command.outputHelp();
  command.configureOutput(output);
  // The page mentions the global options once, at its top.
  return withoutGlobalOptionsLine(text).trim();
}

function configurationPage(planes: readonly Plane[]): string {
  const rows = [...configTable(planes)].map(([name, key]) => {
    const fallback = key.default === undefined ? (key.withoutIt ?? '') : `\`${key.default}\``;
    return [
      `\`${name}\``,
      cell(key.placeholder),
      cell(fallback),
      cell(key.meaning),
      `\`${flagOf(name)}\``,
      `\`${variableOf(name)}\``,
    ];
  });
  return [
    '# Configuration',
    '',
    'Each key can be set in the YAML file (`--config FILE` or `HANSA_CONFIG`), as a variable or as a flag. A flag overrides a variable, a variable overrides the file, and the file overrides the flags of earlier starts, which the data folder keeps in `config.yaml`. Keys with a dot are nested in the file. `hansa config show` shows where each value comes from. `hansa config check` checks a configuration without starting the site.',
    '',
    ...table(['key', 'value', 'default', 'meaning', 'flag', 'variable'], rows),
  ].join('\n');
}

function errorPage(planes: readonly Plane[]): string {
  const exits = Object.values(exitCodes).map(({ code, meaning }) => [String(code), cell(meaning)]);
  const codes = [...catalogOf(planes)].map(([code, { meaning, remedy, like }]) => [
    `\`${code}\``,
    String(exitCodeOf(like)),
    cell(meaning),
    cell(remedy),
  ]);
  return [
    '# Error codes and exit codes',
    '',
    'Every error that a caller must distinguish has a stable code. `hansa explain CODE` prints the same text.',
    '',
    ...table(['code', 'exit code', 'meaning', 'what to do'], codes),
    '',
    '## Exit codes',
    '',
    ...table(['exit code', 'meaning'], exits),
  ].join('\n');
}

function routesPage(routes: readonly RouteRow[]): string {
  return [
    '# Routes',
    '',
    'All routes of a site except those of resources, and who may call each of them. The site checks this before it runs the handler, and again when the request body is complete. Resources are served below `/apis/hansa.dev/v1alpha1/`. A request there needs the right to use its verb on the kind.',
    '',
    'The api listener and the admin socket serve the same routes. The table omits the workload socket, which attests its callers. Paths of OpenID Connect discovery begin with the path of the configured issuer.',
    '',
    '| listener | method | path | who may call |',
    '|---|---|---|---|',
    ...routes.map(
      ({ listener, method, path, access }) =>
        `| ${listener} | ${method} | \`${path}\` | ${whoMayCall(access)} |`,
    ),
  ].join('\n');
}

function metricsPage(ofSites: string, ofAgents: string): string {
  const head = ['name', 'type', 'meaning'];
  return [
    '# Metrics',
    '',
    'The metrics listener serves these metrics at `/metrics`, in the Prometheus text format.',
    '',
    ...table(head, metricRows(ofSites)),
    '',
    '## Agents',
    '',
    'An agent (`hansa agent run --metrics`) serves those of the process and of the Workload API (`hansa_workload_…`), and these:',
    '',
    ...table(head, metricRows(ofAgents)),
  ].join('\n');
}

function metricRows(exposition: string): readonly (readonly string[])[] {
  const types = new Map<string, string>();
  for (const [, name = '', type = ''] of exposition.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    types.set(name, type);
  }
  return [...exposition.matchAll(/^# HELP (\S+) (.*)$/gm)]
    .map(([, name = '', help = '']) => [`\`${name}\``, types.get(name) ?? '', cell(help)])
    .toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)];
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
