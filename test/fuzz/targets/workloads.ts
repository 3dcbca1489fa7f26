// Fuzz targets for what the kernel reports about workloads, and for requests of workloads.

import { readMintRequest, readStreamedRequest } from '../../../src/trust/mint/mint-messages.ts';
import { readSigningRequest } from '../../../src/trust/mint/signing-request.ts';
import {
  controlGroupOf,
  systemdUnitOf,
} from '../../../src/trust/workload/entries/control-group.ts';
import { workloadEntryKind } from '../../../src/api/kinds/workload-entry.ts';
import { apiVersion } from '../../../src/api/object.ts';
import { validateObject } from '../../../src/api/resource-schema.ts';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import {
  EntryIndex,
  usableEntry,
  type WorkloadEntry,
} from '../../../src/trust/workload/entries/matching-entries.ts';
import type { Target } from '../target.ts';

const lubeck = TrustDomain.parse('lubeck.example');

/** An entry that takes these selectors matches whoever has all of them, and nobody who lacks one. */
function selectBy(selectors: readonly string[]): void {
  const entry = {
    apiVersion,
    kind: workloadEntryKind.kind,
    metadata: { name: 'web', uid: 'u' },
    spec: { spiffeID: 'spiffe://lubeck.example/web', selectors, federatesWith: [], ttlSeconds: 60 },
  };
  const [problem] = validateObject(workloadEntryKind, entry);
  if (problem !== undefined) throw new HansaError('HANSA_INVALID', JSON.stringify(problem));
  const usable = usableEntry(entry as unknown as WorkloadEntry, lubeck);
  if ('problem' in usable) throw new HansaError('HANSA_INVALID', usable.problem.reason);
  const index = new EntryIndex([usable.entry]);
  const foreign = ['unix:uid:4294967294', ...selectors];
  if (index.match(foreign).length !== 1) throw new Error('it does not match whom it names');
  for (const missing of selectors) {
    const rest = selectors.filter((each) => each !== missing);
    if (index.match(rest).length !== 0) throw new Error('it matches whom it does not name');
  }
  index.remove(usable.entry);
  if (index.match(foreign).length !== 0) throw new Error('it matches after it is gone');
}

export const workloadTargets: readonly Target[] = [
  {
    name: 'control-group',
    grammar: 'text',
    dictionary: [
      '0::/',
      'name=systemd:/',
      '\n',
      ':',
      '..',
      ' (deleted)',
      '.service',
      '.slice',
      '.scope',
      '_',
      '@',
      '\\x2d',
    ],
    maxBytes: 20_000,
    run: (input) => {
      const path = controlGroupOf(input.toString('utf8'));
      if (path !== undefined) systemdUnitOf(path);
    },
  },
  {
    name: 'signing-request',
    grammar: 'der',
    dictionary: ['spiffe://', 'lubeck.example', '/web', '/hansa/site'],
    maxBytes: 9_000,
    run: async (input) => void (await readSigningRequest(input)),
  },
  {
    name: 'mint-request',
    grammar: 'protobuf',
    dictionary: [],
    maxBytes: 10_000,
    run: (input) => {
      readMintRequest(input);
      readStreamedRequest(input);
    },
  },
  {
    name: 'selectors',
    grammar: 'text',
    dictionary: [
      'unix:uid:',
      'unix:gid:',
      'unix:supplementary_gid:',
      'unix:user:',
      'unix:group:',
      'unix:path:/',
      'unix:sha256:',
      'systemd:id:',
      '.service',
      'cgroup:/',
      '\n',
      '0',
      '4294967296',
    ],
    maxBytes: 6_000,
    run: (input) => selectBy(input.toString('utf8').split('\n')),
  },
];
