// Parsers of what the kernel tells of workloads, and of what workloads ask.

import { readMintRequest, readStreamedRequest } from '../../../src/trust/mint/mint-messages.ts';
import { readSigningRequest } from '../../../src/trust/mint/signing-request.ts';
import { controlGroupOf, systemdUnitOf } from '../../../src/trust/workload/control-group.ts';
import type { Target } from '../target.ts';

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
];
