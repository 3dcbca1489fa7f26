// Fuzz targets for both ends of the channel between a site and its agents.

import { parseFromAgent } from '../../../src/core/agent/from-agent.ts';
import { maxFromAgentBytes, maxToAgentBytes } from '../../../src/core/agent/limits.ts';
import { keyOf } from '../../../src/core/agent/state.ts';
import { readToAgent, StateAssembly } from '../../../src/core/agent/to-agent.ts';
import type { Target } from '../target.ts';

const words = ['identities', 'workloadentries', 'spiffefederations', 'lubeck.example', '\0'];

export const agentTargets: readonly Target[] = [
  {
    name: 'from-agent',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes: maxFromAgentBytes,
    run: (input) => {
      const message = parseFromAgent(input);
      if (message.kind !== 'hello') return;
      const items = message.hello.held?.items ?? [];
      if (new Set(items.map((item) => keyOf(item))).size < items.length) {
        throw new TypeError('two held items have the same name');
      }
    },
  },
  {
    name: 'to-agent',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes: maxToAgentBytes,
    run: (input) => {
      const message = readToAgent(input);
      if (message.case === 'state') new StateAssembly().add(message.part, input.byteLength);
    },
  },
];
