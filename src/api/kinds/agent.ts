// The kind Agent: a machine of this site that runs `hansa agent run`. The site creates the object when
// the machine joins. The machine of the site itself is the Agent `site`.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';
import { workloadEntryKind } from './workload-entry.ts';

export type Agent = ResourceOf<typeof agentKind>;

export const agentKind = defineKind({
  kind: 'Agent',
  plural: 'agents',
  singular: 'agent',
  shortNames: [],
  description:
    'A machine of this site that serves the Workload API to its workloads. The site creates the object when a machine joins with a JoinToken; the Agent `site` is the machine of the site itself. Its labels decide which WorkloadEntries it gets, so changing them needs the right to write WorkloadEntries. Deleting the object forgets the agent: its SVID is rejected at once, and its name is free.',
  names: 'agent',
  auditName: 'agent',
  guardedFields: [
    { field: 'metadata.labels', writes: workloadEntryKind.plural },
    { field: 'spec.entriesByName', writes: workloadEntryKind.plural },
  ],
  specRequired: false,
  spec: s.object({
    description: 'Settings of the agent.',
    fields: {
      maxOfflineSeconds: optional(
        s.integer({
          description:
            'How long ext_authz on the agent decides without contact to the site. After that, it denies every call until the agent is connected again.',
          format: 'int32',
          minimum: 10,
          maximum: 604_800,
          default: 3600,
        }),
      ),
      entriesByName: optional(
        s.boolean({
          description:
            'Whether WorkloadEntries that name the agent apply on it. The site sets false if another agent of this name was forgotten before the machine joined, unless it joined with a token that names it (agentName) and was written after that. Setting it needs the verbs create and update on all WorkloadEntries.',
          default: true,
        }),
      ),
    },
  }),
  status: s.object({
    description: 'The observed state of the agent.',
    fields: {
      state: optional(
        s.string({
          description:
            'Joined: it has an SVID, but was never connected. Connected: it gets every change at once. Disconnected: it serves what it has. Expired: its SVID has expired, so it cannot connect until it attests again. Suspended: the site does not trust the peer that vouched for it now. Conflicted: two processes use its identity, and the site signs nothing new for it.',
          enum: ['Joined', 'Connected', 'Disconnected', 'Expired', 'Suspended', 'Conflicted'],
        }),
      ),
      since: optional(s.time({ description: 'When it entered this state.' })),
      reason: optional(
        s.string({
          description: 'Why it is in this state, and what to do.',
          maxLength: 1024,
        }),
      ),
      joinedAt: optional(s.time({ description: 'When it joined.' })),
      token: optional(
        s.string({ description: 'The JoinToken with which it joined.', maxLength: 253 }),
      ),
      provenBy: optional(
        s.string({
          description: 'How it proved its identity: a SPIFFE ID, or the secret of the token.',
          maxLength: 2048,
        }),
      ),
      host: optional(
        s.string({
          description: 'The name of its host, as the agent reports it. It decides nothing.',
          maxLength: 253,
        }),
      ),
      version: optional(
        s.string({
          description: 'The version of Hansa that it runs, as the agent reports it.',
          maxLength: 64,
        }),
      ),
      replica: optional(
        s.string({
          description: 'The replica of the site that it is or was connected to.',
          maxLength: 253,
        }),
      ),
      lastSeenAt: optional(
        s.time({ description: 'When the site last received a message from it.' }),
      ),
      svidExpiresAt: optional(s.time({ description: 'When its SVID expires.' })),
      entries: optional(
        s.integer({
          description: 'Number of WorkloadEntries that are assigned to it.',
          format: 'int32',
          minimum: 0,
        }),
      ),
      workloads: optional(
        s.integer({
          description: 'Number of workloads that are connected to it.',
          format: 'int32',
          minimum: 0,
        }),
      ),
      problems: optional(
        s.list({
          description: 'Problems that the agent reports.',
          listType: 'atomic',
          maxItems: 16,
          items: s.string({ description: 'One problem, in a sentence.', maxLength: 512 }),
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  // They change with every contact or renewal, and change no state.
  liveStatus: [
    'host',
    'version',
    'replica',
    'lastSeenAt',
    'svidExpiresAt',
    'entries',
    'workloads',
    'problems',
  ],
  columns: [
    {
      name: 'State',
      type: 'string',
      jsonPath: '.status.state',
      description: 'The state of the agent.',
    },
    {
      name: 'Entries',
      type: 'integer',
      jsonPath: '.status.entries',
      description: 'Number of WorkloadEntries that are assigned to it.',
    },
    {
      name: 'Workloads',
      type: 'integer',
      jsonPath: '.status.workloads',
      description: 'Number of workloads that are connected to it.',
    },
    {
      name: 'Last-Seen',
      type: 'date',
      jsonPath: '.status.lastSeenAt',
      description: 'Time since the site received a message from it.',
    },
    {
      name: 'SVID-Expires',
      type: 'date',
      jsonPath: '.status.svidExpiresAt',
      description: 'Time until its SVID expires.',
      counts: 'down',
    },
    {
      name: 'Version',
      type: 'string',
      jsonPath: '.status.version',
      description: 'The version of Hansa that it runs.',
    },
    {
      name: 'Host',
      type: 'string',
      jsonPath: '.status.host',
      description: 'The name of its host.',
      priority: 1,
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.reason',
      description: 'Why it is in this state, and what to do.',
      priority: 1,
    },
  ],
});
