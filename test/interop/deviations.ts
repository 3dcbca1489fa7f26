// Every intended difference between a site and kube-apiserver, each with its reason. Any other
// difference is a bug.

import type { Json } from '../../src/api/object.ts';
import type { Difference, Place } from './compare.ts';

interface Deviation {
  readonly reason: string;
  readonly covers: (place: Place, difference: Difference) => boolean;
  /** After it the two sides hold different objects, and nothing more can be compared. */
  readonly ends?: true;
}

const deviations: readonly Deviation[] = [
  {
    reason: 'a site speaks JSON and YAML, not protobuf, and does not offer what it cannot do',
    covers: without(', application/vnd.kubernetes.protobuf'),
  },
  {
    reason: 'what a client got wrong is 400, where kube-apiserver reports a failure of its own',
    covers: ({ path }, difference) =>
      ['.status', '.body.code', '.body.reason'].includes(path) &&
      difference.places.some((place) => place.path === '.status' && place.one === 500) &&
      difference.places.some((place) => place.path === '.status' && place.other === 400),
  },
  {
    reason: 'what is wrong with YAML is said in the words of another parser',
    covers: ({ path, one, other }) =>
      path === '.body.message' &&
      typeof one === 'string' &&
      typeof other === 'string' &&
      one.replace(/(yaml: line \d+: ).*?( \([0-9a-f]+\)|$)/, '$1$2') ===
        other.replace(/(yaml: line \d+: ).*?( \([0-9a-f]+\)|$)/, '$1$2'),
  },
  {
    reason: 'messages do not name source files of kube-apiserver',
    covers: without(' in scheme "pkg/runtime/scheme.go:111"'),
  },
  {
    reason: 'messages do not name types of Go that say nothing to a client',
    covers: without(' (*unstructured.UnstructuredList)'),
  },
  {
    reason: 'messages do not name keys of etcd',
    covers: ({ one, other }) =>
      typeof one === 'string' &&
      one.replace(/StorageError: invalid object, .* AdditionalErrorMsg: /, '') === other,
  },
  {
    reason:
      'an object of a wrong kind is refused for that alone; kube-apiserver then also evaluates rules on what it did not default',
    covers: ({ path }, { exchanges }) =>
      /^\.body\.(message|details\.causes)/.test(path) &&
      Object.values(exchanges).some(({ answer }) => answer.text.includes('no such key: ')),
  },
  {
    reason:
      'an object of a wrong version is refused for that alone; kube-apiserver also warns of each of its fields',
    covers: ({ path, other }, { exchanges }) =>
      path === '.headers.warning' &&
      other === undefined &&
      Object.values(exchanges).every(({ answer }) =>
        answer.text.includes('does not match the expected API version'),
      ),
  },
  {
    reason: 'an empty list is a list, also of metadata alone',
    covers: ({ path, one, other }) =>
      path === '.body.items' && one === null && JSON.stringify(other) === '[]',
  },
  {
    reason:
      'of several values that do not fit, kube-apiserver tells in the order of a Go map: another one each time',
    covers: ({ path, one, other }) =>
      path === '.body.message' &&
      inAnyOrder(one) !== undefined &&
      inAnyOrder(one) === inAnyOrder(other),
  },
  {
    reason:
      'when an object was deleted is set by the site alone; kube-apiserver takes it from an apply that creates',
    covers: ({ path, other }, { what, exchanges }) =>
      ['.body.metadata.deletionTimestamp', '.body.metadata.deletionGracePeriodSeconds'].includes(
        path,
      ) &&
      other === undefined &&
      what.startsWith('PATCH ') &&
      Object.values(exchanges).every(({ answer }) => answer.status === 201),
  },
  {
    reason: 'errors do not end with a line about <nil>, that further rules were not checked',
    covers: ({ path, one, other }, { places }) => {
      const causes = places.find((place) => place.path === '.body.details.causes');
      const checked = checkedCauses(causes?.one);
      if (checked === undefined || JSON.stringify(checked) !== JSON.stringify(causes?.other)) {
        return false;
      }
      if (path !== '.body.message') return path === '.body.details.causes';
      const [only] = checked;
      const alone = `${only?.field}: ${only?.message}`;
      return typeof one === 'string' && one.replace('<causes>', alone) === other;
    },
  },
  {
    reason: 'a namespace is not dropped in silence: a warning says so',
    covers: ({ path, one, other }) =>
      path === '.headers.warning' &&
      typeof other === 'string' &&
      other.replace(namespaceWarning, '') === (one ?? ''),
  },
  {
    reason: 'columns are described in our own words',
    covers: ({ path }) => /columnDefinitions\[\d+\]\.description$/.test(path),
  },
  {
    reason: 'nothing collects garbage in a site, so nobody would take these finalizers away again',
    covers: (_, { exchanges }) =>
      Object.values(exchanges).some(
        ({ request, answer }) =>
          request.method === 'DELETE' && /"(orphan|foregroundDeletion)"/.test(answer.text),
      ),
    ends: true,
  },
  {
    reason:
      'a null is no value, as where an object is created; kube-apiserver refuses it in an apply, and makes one itself of an object or list when it takes away all that was in it',
    covers: (_, { what, exchanges }) =>
      what.startsWith('apply ') &&
      Object.values(exchanges).some(({ answer }) =>
        /in body must be of type \w+: \\"null\\"/.test(answer.text),
      ),
    ends: true,
  },
  {
    reason:
      'what changes nothing is no change; kube-apiserver keeps an empty list where an apply took away all finalizers, does not show it, and counts it as a change when it goes',
    covers: ({ path }, { places, exchanges }) =>
      path === '.body.metadata.resourceVersion' &&
      places.length === 1 &&
      Object.values(exchanges).every(
        ({ request }) => request.body === '{"metadata":{"finalizers":null}}',
      ),
    ends: true,
  },
  {
    reason:
      'a change of status leaves the spec alone, and the other way round, so it does no harm there; kube-apiserver forgets who owns what when the part left alone would have been broken',
    covers: ({ path, one }, { exchanges }) =>
      path === '.body.metadata.managedFields' &&
      one === undefined &&
      Object.values(exchanges).every(({ answer }) => answer.status < 300),
    ends: true,
  },
];

/** The same message but for a phrase that kube-apiserver adds. */
/** Alone, or before or after others. */
const namespaceWarning =
  /(?:^|, )299 - "metadata\.namespace is ignored: [^"]*"(?:$|, (?=.))|, 299 - "metadata\.namespace is ignored: [^"]*"$/;

interface SaidCause {
  readonly field: string;
  readonly message: string;
}

/** The causes without that line. Undefined if they do not have it. */
function checkedCauses(causes: Json | undefined): readonly SaidCause[] | undefined {
  if (!Array.isArray(causes)) return undefined;
  const all = causes as unknown as readonly SaidCause[];
  const checked = all.filter(
    ({ field, message }) =>
      field !== '<nil>' || !message.includes('some validation rules were not checked'),
  );
  return checked.length === all.length ? undefined : checked;
}

function without(phrase: string): Deviation['covers'] {
  return ({ one, other }) => typeof one === 'string' && one.replace(phrase, '') === other;
}

/** The lines of a list of errors, sorted; undefined for a message that is none. */
function inAnyOrder(message: Json | undefined): string | undefined {
  if (typeof message !== 'string' || !message.includes(': errors:\n')) return undefined;
  return message.split('\n').toSorted().join('\n');
}

/** What remains of a difference when deviations are taken out, and whether the comparison can go on. */
export function judge(difference: Difference): {
  readonly fault: Difference | undefined;
  readonly ends: boolean;
} {
  const places: Place[] = [];
  for (const place of difference.places) {
    const found = deviations.find(({ covers }) => covers(place, difference));
    // Where the sides part, whatever else differs in the same answer comes from that.
    if (found?.ends === true) return { fault: undefined, ends: true };
    if (found === undefined) places.push(place);
  }
  return { fault: places.length === 0 ? undefined : { ...difference, places }, ends: false };
}
