// The parameters of lists and watches: which of them kube-apiserver refuses, which objects they select,
// and where a page begins.

import { HansaError } from '../../../src/core/errors/error.ts';
import { parseLabelSelector } from '../../../src/api/selectors/label-selector.ts';
import { badRequest, invalid, KubeFailure } from './kube-failure.ts';
import { fieldsOf, type StoredObject } from './stored-object.ts';

export type Query = Readonly<Record<string, string>>;

export interface Position {
  readonly revision: number;
  /** The key after which the page begins. */
  readonly after: string;
}

/** Throws a KubeFailure. */
export function checkListQuery(query: Query): void {
  const { resourceVersion = '', resourceVersionMatch: match, continue: token = '' } = query;
  const problems: string[] = [];
  if (match !== undefined) {
    if (resourceVersion === '') {
      problems.push(
        'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
      );
    }
    if (token !== '') {
      problems.push(
        'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided',
      );
    }
    if (match !== 'Exact' && match !== 'NotOlderThan') {
      problems.push(`resourceVersionMatch: Unsupported value: ${JSON.stringify(match)}`);
    }
    if (match === 'Exact' && resourceVersion === '0') {
      problems.push(
        'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
      );
    }
  }
  if (query['sendInitialEvents'] !== undefined) {
    problems.push('sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list');
  }
  refuse(problems);
  if (token !== '' && resourceVersion !== '' && resourceVersion !== '0') {
    throw badRequest('specifying resource version is not allowed when using continue');
  }
}

/** Throws a KubeFailure. */
export function checkWatchQuery(query: Query): void {
  const { resourceVersionMatch: match, sendInitialEvents } = query;
  const problems: string[] = [];
  if (sendInitialEvents !== undefined && match !== 'NotOlderThan') {
    problems.push(
      'resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    );
  }
  if (match !== undefined && sendInitialEvents === undefined) {
    problems.push(
      'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
    );
  }
  refuse(problems);
  // Unlike a list, kube-apiserver fails here.
  if (!isVersion(query)) throw new KubeFailure(500, '', 'the version is not a number');
}

const isVersion = ({ resourceVersion = '' }: Query): boolean => /^\d*$/.test(resourceVersion);

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw invalid('ListOptions.meta.k8s.io ""', problems);
}

/** Throws a KubeFailure for what is not a number. */
export function versionIn(query: Query): number {
  if (!isVersion(query)) throw badRequest('invalid resource version');
  return Number(query['resourceVersion'] ?? '');
}

export function tokenOf({ revision, after }: Position): string {
  return Buffer.from(JSON.stringify([revision, after])).toString('base64url');
}

/** Throws a KubeFailure. */
export function positionOf(token: string): Position {
  try {
    const [revision, after] = JSON.parse(Buffer.from(token, 'base64url').toString()) as [
      number,
      string,
    ];
    if (Number.isSafeInteger(revision) && typeof after === 'string') return { revision, after };
  } catch {
    // Refused below.
  }
  throw badRequest('continue key is not valid');
}

/** Throws a KubeFailure. */
export function selectorOf(query: Query): (object: StoredObject) => boolean {
  const { labelSelector = '', fieldSelector = '' } = query;
  const labels = labelsOf(labelSelector);
  const fields = fieldSelector === '' ? [] : fieldSelector.split(',').map(termOf);
  return (object) =>
    labels.matches(object.metadata.labels ?? {}) &&
    fields.every(({ path, isEqual, value }) => (valueAt(object, path) === value) === isEqual);
}

function labelsOf(text: string): ReturnType<typeof parseLabelSelector> {
  try {
    return parseLabelSelector(text);
  } catch (error) {
    if (error instanceof HansaError)
      throw badRequest(`unable to parse requirement: ${error.message}`);
    throw error;
  }
}

function termOf(text: string): { path: readonly string[]; isEqual: boolean; value: string } {
  const [, field = '', operator = '', value = ''] = /^([\w.]+)(!=|==?)(.*)$/.exec(text) ?? [];
  // Each kind has more of them in kube-apiserver; the plane uses these.
  if (field !== 'metadata.name' && field !== 'metadata.namespace') {
    throw badRequest(`field label not supported: ${field}`);
  }
  return { path: field.split('.'), isEqual: operator !== '!=', value };
}

function valueAt(object: StoredObject, path: readonly string[]): string {
  let value: unknown = object;
  for (const step of path) value = fieldsOf(value)[step];
  return typeof value === 'string' ? value : '';
}
