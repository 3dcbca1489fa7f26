// The complete steps of one comparison: a transcript, watches that replay all events that it
// caused, and the clean-up.

import type { Play } from './compare.ts';
import type { Step, Subject } from './transcript.ts';

const table = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
const partial = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json';

export interface Story {
  readonly steps: readonly Play[];
  /** Played at the same time: each waits a second for events that must not come. */
  readonly histories: readonly Play[];
  readonly cleanUp: readonly Play[];
}

export function storyOf(transcript: readonly Step[], subjects: readonly Subject[]): Story {
  return {
    steps: [
      ...subjects.map((subject) => ({ op: 'mark', subject }) as const),
      ...transcript,
      ...subjects.map((subject) => read(subject)),
    ],
    histories: subjects.flatMap((subject) => [
      history(subject, 'application/json', {}),
      history(subject, 'application/json', { labelSelector: 'app' }),
      history(subject, 'application/json', { fieldSelector: 'metadata.name=a' }),
      history(subject, table, {}),
      history(subject, partial, { labelSelector: 'app!=ash' }),
    ]),
    cleanUp: subjects.flatMap((subject) => cleanUp(subject)),
  };
}

function read(subject: Subject): Play {
  return { op: 'read', subject, accept: 'application/json', query: {} };
}

function history(subject: Subject, accept: string, query: Record<string, string>): Play {
  return { op: 'history', subject, accept, query };
}

/** What has finalizers goes away only without them. */
function cleanUp(subject: Subject): readonly Play[] {
  const names = ['a', 'b', 'c', 'd'];
  return [
    ...names.map(
      (name): Play => ({
        op: 'patch',
        type: 'merge',
        subject,
        name,
        status: false,
        body: { metadata: { finalizers: null } },
        base: 'none',
        query: {},
      }),
    ),
    { op: 'delete-all', subject, query: {} },
  ];
}
