// Parses the query parameters of reads and writes, with the error messages of kube-apiserver.

import { managerFromUserAgent, validateManagerOptions } from '../../api/fields/writer-name.ts';
import {
  type FieldError,
  forbidden,
  invalidObject,
  notSupported,
} from '../../api/schema/field-error.ts';
import { booleanParameter, integerParameter } from './parameters.ts';

export const metaGroup = 'meta.k8s.io';

export interface WriteOptions {
  readonly dryRun: boolean;
  /** Never empty for an apply. */
  readonly manager: string;
  readonly fieldValidation: 'Ignore' | 'Warn' | 'Strict';
  readonly force: boolean;
}

const fieldValidations = ['Ignore', 'Strict', 'Warn'] as const;

export function writeOptions(
  query: URLSearchParams,
  verb: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
  userAgent: string | undefined,
  patch?: 'apply' | 'other',
): WriteOptions {
  const fieldManager = query.get('fieldManager') ?? '';
  const force = booleanParameter(query, 'force');
  const errors = validateManagerOptions({
    fieldManager,
    ...(patch === undefined ? {} : { patch }),
    ...(force === undefined ? {} : { force }),
  });
  const dryRun = readDryRun(query.getAll('dryRun'), errors);
  const given = query.get('fieldValidation') ?? '';
  const fieldValidation = given === '' ? 'Warn' : fieldValidations.find((known) => known === given);
  if (fieldValidation === undefined)
    errors.push(notSupported('fieldValidation', given, ['', ...fieldValidations]));
  if (errors.length > 0 || fieldValidation === undefined)
    throw invalidObject({ group: metaGroup, kind: verb, name: '' }, errors);
  return {
    dryRun,
    manager: fieldManager === '' ? managerFromUserAgent(userAgent ?? '') : fieldManager,
    fieldValidation,
    force: force ?? false,
  };
}

export function readDryRun(values: readonly string[], errors: FieldError[]): boolean {
  if (values.some((value) => value !== 'All')) errors.push(notSupported('dryRun', values, ['All']));
  return values.length > 0;
}

export interface ListOptions {
  readonly watch: boolean;
  readonly labelSelector: string;
  readonly fieldSelector: string;
  /** '' if absent. */
  readonly resourceVersion: string;
  readonly resourceVersionMatch: '' | 'Exact' | 'NotOlderThan';
  readonly limit: number;
  readonly continueToken: string;
  readonly timeoutSeconds: number | undefined;
  readonly allowWatchBookmarks: boolean;
  readonly sendInitialEvents: boolean | undefined;
}

export function listOptions(query: URLSearchParams): ListOptions {
  const match = query.get('resourceVersionMatch') ?? '';
  const options = {
    watch: booleanParameter(query, 'watch') ?? false,
    labelSelector: query.get('labelSelector') ?? '',
    fieldSelector: query.get('fieldSelector') ?? '',
    resourceVersion: query.get('resourceVersion') ?? '',
    resourceVersionMatch: match as ListOptions['resourceVersionMatch'],
    limit: integerParameter(query, 'limit') ?? 0,
    continueToken: query.get('continue') ?? '',
    timeoutSeconds: integerParameter(query, 'timeoutSeconds'),
    allowWatchBookmarks: booleanParameter(query, 'allowWatchBookmarks') ?? false,
    sendInitialEvents: booleanParameter(query, 'sendInitialEvents'),
  };
  const errors = options.watch ? watchErrors(options, match) : listErrors(options, match);
  if (errors.length > 0)
    throw invalidObject({ group: metaGroup, kind: 'ListOptions', name: '' }, errors);
  return options;
}

function unsupportedMatch(match: string, supported: readonly string[]): FieldError {
  return notSupported('resourceVersionMatch', match, supported);
}

function listErrors(options: ListOptions, match: string): FieldError[] {
  const errors: FieldError[] = [];
  const refuseMatch = (why: string): void => {
    errors.push(forbidden('resourceVersionMatch', why));
  };
  if (match !== '') {
    if (options.resourceVersion === '')
      refuseMatch('resourceVersionMatch is forbidden unless resourceVersion is provided');
    if (options.continueToken !== '')
      refuseMatch('resourceVersionMatch is forbidden when continue is provided');
    if (match !== 'Exact' && match !== 'NotOlderThan')
      errors.push(unsupportedMatch(match, ['Exact', 'NotOlderThan', '']));
    if (match === 'Exact' && options.resourceVersion === '0') {
      refuseMatch('resourceVersionMatch "exact" is forbidden for resourceVersion "0"');
    }
  }
  if (options.sendInitialEvents !== undefined)
    errors.push(forbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  return errors;
}

function watchErrors(options: ListOptions, match: string): FieldError[] {
  const errors: FieldError[] = [];
  if (options.sendInitialEvents === undefined) {
    if (match !== '') {
      errors.push(
        forbidden(
          'resourceVersionMatch',
          'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
        ),
      );
    }
    return errors;
  }
  if (match === '')
    errors.push(
      forbidden(
        'resourceVersionMatch',
        'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
      ),
    );
  else if (match !== 'NotOlderThan') errors.push(unsupportedMatch(match, ['NotOlderThan']));
  // Without bookmarks, the client could not detect the end of the initial events.
  else if (options.sendInitialEvents && !options.allowWatchBookmarks) {
    errors.push(
      forbidden(
        'allowWatchBookmarks',
        'sendInitialEvents requires setting allowWatchBookmarks to true',
      ),
    );
  }
  return errors;
}
