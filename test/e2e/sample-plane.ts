// A small plane that adds one of everything that a plane can add to a site. Only sample-plane.test.ts
// uses it.

import { Command } from 'commander';
import { defineKind, type ResourceOf } from '../../src/api/kind.ts';
import { optional, required, s } from '../../src/api/schema/dsl.ts';
import { configKey } from '../../src/core/config/config-key.ts';
import { parseCount } from '../../src/core/config/config-values.ts';
import { definePlaneSettings } from '../../src/core/config/plane-settings.ts';
import { errorMaker, type PlaneErrors } from '../../src/core/errors/plane-errors.ts';
import type { CommandKit } from '../../src/core/plane/command-kit.ts';
import { ok } from '../../src/core/plane/doctor.ts';
import { pathTo } from '../../src/core/plane/path-to.ts';
import type { Plane, PlaneContext, RunningPlane } from '../../src/core/plane/plane.ts';
import { StoreSource } from '../../src/core/reconcile/source.ts';

type Harbour = ResourceOf<typeof harbourKind>;

const harbourKind = defineKind({
  kind: 'Harbour',
  plural: 'harbours',
  singular: 'harbour',
  shortNames: ['hb'],
  description: 'A harbour of this site.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'What is wanted.',
    fields: { piers: required(s.integer({ description: 'How many piers.', minimum: 0 })) },
  }),
  status: s.object({
    description: 'What is there.',
    fields: { builtPiers: optional(s.integer({ description: 'How many piers are built.' })) },
  }),
  columns: [
    { name: 'Built', type: 'integer', jsonPath: '.status.builtPiers', description: 'Built piers.' },
  ],
});

interface HarbourSettings {
  readonly maxPiers: number;
}

const harbourSettings = definePlaneSettings({
  keys: {
    'harbour.maxPiers': configKey({
      placeholder: 'COUNT',
      meaning: 'The most piers that a harbour has.',
      default: '2',
      parse: parseCount(1, 9),
    }),
  },
  read: (values): HarbourSettings => ({ maxPiers: values['harbour.maxPiers'] }),
  warnings: ({ maxPiers }) => (maxPiers > 5 ? ['harbour.maxPiers is above 5'] : []),
});

const harbourErrors = {
  HANSA_HARBOUR_FULL: {
    like: 'HANSA_CONFLICT',
    meaning: 'Every pier of the harbour is taken.',
    remedy: 'Build another pier.',
  },
} as const satisfies PlaneErrors;

declare module '../../src/core/errors/error.ts' {
  interface PlaneErrorCodes extends Record<keyof typeof harbourErrors, true> {}
}

const harbourError = errorMaker(harbourErrors);

const landingsPath = '/hansa/v1/harbours/{name}/landings';

function landCommand(kit: CommandKit): Command {
  return new Command('land')
    .description('land a ship')
    .argument('<harbour>', 'where')
    .addHelpText('after', '\nExamples:\n  hansa harbour land north')
    .action((name: string, _options: unknown, command: Command) =>
      kit.withClient(command, async (client) => {
        await client.request({ method: 'POST', path: pathTo(landingsPath, { name }) });
        kit.print(`landed at ${name}`);
      }),
    );
}

async function start(context: PlaneContext, { maxPiers }: HarbourSettings): Promise<RunningPlane> {
  const { store, clock, metrics } = context;
  const harbours = context.resources<Harbour>(harbourKind);
  const landings = metrics.counter({
    name: 'hansa_harbour_landings_total',
    help: 'Ships that landed.',
    labels: ['harbour'],
  });
  let landed = 0;
  return {
    controllers: [
      {
        name: 'harbour-piers',
        sources: [new StoreSource({ store, clock, collection: harbourKind.plural })],
        reconcile: async (name) => {
          await harbours.patchStatus(
            name,
            ({ spec }) => ({ builtPiers: Math.min(spec.piers, maxPiers) }),
            { controller: 'harbour-piers' },
          );
          return undefined;
        },
      },
    ],
    routes: [
      {
        listener: 'api',
        method: 'POST',
        path: landingsPath,
        allow: 'rights',
        rights: [{ verb: 'create', kind: harbourKind, subresource: 'landings', nameFrom: 'name' }],
        handle: async ({ params: { name = '' } }) => {
          const built = (await harbours.get(name))?.status?.builtPiers ?? 0;
          if (landed >= built) {
            throw harbourError('HANSA_HARBOUR_FULL', `Cannot land at ${name}: ${built} piers.`);
          }
          landed += 1;
          landings.add({ harbour: name });
          return { status: 200, contentType: 'application/json', body: '{}' };
        },
      },
    ],
    endpoints: { harbour: { address: '/srv/harbour.sock', hint: 'for ships' } },
    stop: async () => undefined,
  };
}

export const samplePlane: Plane<HarbourSettings> = {
  name: 'harbour',
  kinds: [harbourKind],
  settings: harbourSettings,
  errors: harbourErrors,
  presets: { editor: [{ kinds: ['Harbour'], verbs: ['create'], subresources: ['landings'] }] },
  guide: ['harbours'],
  nextCommand: (dataDir) => `harbour land north --data-dir ${dataDir}`,
  commands: (kit) => [
    new Command('harbour')
      .description('harbours of the site')
      .addHelpText('after', '\nExamples:\n  hansa harbour land north')
      .addCommand(landCommand(kit)),
  ],
  doctor: {
    site: [
      {
        name: 'harbours',
        run: async ({ client, settings }) => {
          const { items } = await client.list(harbourKind);
          return [ok('harbours', `${items.length} with at most ${settings?.maxPiers} piers`)];
        },
      },
    ],
  },
  status: async (client) => {
    const { items } = await client.list(harbourKind);
    return { fields: { harbours: items.length }, rows: [['harbours', String(items.length)]] };
  },
  start,
};
