// Query parameters of reads and writes, parsed once, with kube-apiserver's words for what is wrong.

import { managerFromUserAgent } from '../../api/fields/manager-name.ts';
import {
  causeOf,
  type FieldError,
  forbidden,
  invalid,
  invalidObject,
  notSupported,
  required,
  tooLong,
} from '../../api/schema/field-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import { badRequest } from './errors.ts';

const metaGroup = 'meta.k8s.io';
const maxFieldManagerBytes = 128;

export interface WriteOptions {
  readonly dryRun: boolean;
  /** Never empty for an apply. */
  readonly manager: string;
  readonly fieldValidation: 'Ignore' | 'Warn' | 'Strict';
  readonly force: boolean;
}

const fieldValidations = ['Ignore', 'Strict', 'Warn'] as const;

type WriteVerb = 'CreateOptions' | 'UpdateOptions' | 'PatchOptions';

export function writeOptions(
  query: URLSearchParams,
  verb: WriteVerb,
  userAgent: string | undefined,
  isApply = false,
): WriteOptions {
  const causes: FieldError[] = [];
  const manager = query.get('fieldManager') ?? '';
  const force = booleanParameter(query, 'force');
  if (verb === 'PatchOptions') {
    if (isApply && manager === '') {
      causes.push(required('fieldManager', 'is required for apply patch'));
    } else if (!isApply && force !== undefined) {
      causes.push(forbidden('force', 'may not be specified for non-apply patch'));
    }
  }
  if (Buffer.byteLength(manager) > maxFieldManagerBytes) {
    causes.push(tooLong('fieldManager', maxFieldManagerBytes));
  }
  const dryRun = dryRunValues(query.getAll('dryRun'), causes);
  const validation = query.get('fieldValidation') ?? '';
  if (validation !== '' && !fieldValidations.some((known) => known === validation)) {
    causes.push(notSupported('fieldValidation', validation, fieldValidations));
  }
  if (causes.length > 0) throw invalidObject({ group: metaGroup, kind: verb, name: '' }, causes);
  return {
    dryRun,
    manager: manager === '' ? managerFromUserAgent(userAgent ?? '') : manager,
    fieldValidation: validation === '' ? 'Warn' : (validation as WriteOptions['fieldValidation']),
    force: force ?? false,
  };
}

function dryRunValues(values: readonly string[], causes: FieldError[]): boolean {
  for (const value of values) {
    if (value === 'All') continue;
    causes.push(notSupported('dryRun', values.length === 1 ? value : values, ['All']));
    break;
  }
  return values.length > 0;
}

/** Go's ParseBool, as the parameter codec of Kubernetes reads booleans: empty and unknown words are true. */
function booleanParameter(query: URLSearchParams, name: string): boolean | undefined {
  const value = query.get(name);
  if (value === null) return undefined;
  return !(
    value === 'false' ||
    value === '0' ||
    value === 'False' ||
    value === 'FALSE' ||
    value === 'f' ||
    value === 'F'
  );
}

export interface ListOptions {
  readonly watch: boolean;
  readonly labelSelector: string;
  readonly fieldSelector: string;
  /** '' where none was given. */
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
  const causes = options.watch ? watchCauses(options, match) : listCauses(options, match);
  if (causes.length > 0)
    throw invalidObject({ group: metaGroup, kind: 'ListOptions', name: '' }, causes);
  return options;
}

function unsupportedMatch(match: string, supported: readonly string[]): FieldError {
  return notSupported('resourceVersionMatch', match, supported);
}

function listCauses(options: ListOptions, match: string): FieldError[] {
  const causes: FieldError[] = [];
  if (match !== '') {
    if (options.resourceVersion === '')
      causes.push(
        forbidden(
          'resourceVersionMatch',
          'resourceVersionMatch is forbidden unless resourceVersion is provided',
        ),
      );
    if (options.continueToken !== '')
      causes.push(
        forbidden(
          'resourceVersionMatch',
          'resourceVersionMatch is forbidden when continue is provided',
        ),
      );
    if (match !== 'Exact' && match !== 'NotOlderThan')
      causes.push(unsupportedMatch(match, ['Exact', 'NotOlderThan', '']));
    if (match === 'Exact' && options.resourceVersion === '0') {
      causes.push(
        forbidden(
          'resourceVersionMatch',
          'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
      );
    }
  }
  if (options.sendInitialEvents !== undefined) {
    causes.push(forbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  }
  return causes;
}

function watchCauses(options: ListOptions, match: string): FieldError[] {
  const causes: FieldError[] = [];
  if (options.sendInitialEvents !== undefined) {
    if (match === '')
      causes.push(
        forbidden(
          'resourceVersionMatch',
          'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
        ),
      );
    else if (match !== 'NotOlderThan') causes.push(unsupportedMatch(match, ['NotOlderThan']));
    if (options.sendInitialEvents && !options.allowWatchBookmarks) {
      causes.push(
        forbidden(
          'allowWatchBookmarks',
          'sendInitialEvents requires setting allowWatchBookmarks to true',
        ),
      );
    }
  } else if (match !== '') {
    causes.push(
      forbidden(
        'resourceVersionMatch',
        'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
      ),
    );
  }
  return causes;
}

function integerParameter(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  if (value === null || value === '') return undefined;
  if (!/^[+-]?\d{1,18}$/.test(value))
    throw badRequest(`strconv.ParseInt: parsing "${value}": invalid syntax`);
  return Number(value);
}

/** A resourceVersion is a decimal without sign; '' and '0' have meanings of their own. */
export function parseResourceVersion(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const error = invalid(
    'resourceVersion',
    text,
    `strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`,
  );
  throw new HansaError('HANSA_INVALID', `${error.field}: ${error.message}`, {
    details: { causes: [causeOf(error)] },
  });
}

export interface DeleteOptions {
  readonly dryRun: boolean;
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
}

const propagationPolicies = ['Background', 'Foreground', 'Orphan'];

/** `body` is the decoded DeleteOptions, or undefined where the request had none. */
export function deleteOptions(
  query: URLSearchParams,
  body: Readonly<Record<string, unknown>> | undefined,
): DeleteOptions {
  const causes: FieldError[] = [];
  const dryRunList = body === undefined ? query.getAll('dryRun') : stringList(body['dryRun']);
  const policy = body === undefined ? query.get('propagationPolicy') : body['propagationPolicy'];
  if (typeof policy === 'string' && policy !== '' && !propagationPolicies.includes(policy)) {
    causes.push(notSupported('propagationPolicy', policy, propagationPolicies));
  }
  const dryRun = dryRunValues(dryRunList, causes);
  if (causes.length > 0)
    throw invalidObject({ group: metaGroup, kind: 'DeleteOptions', name: '' }, causes);
  const preconditions = (body?.['preconditions'] ?? {}) as Readonly<Record<string, unknown>>;
  return {
    dryRun,
    uid: optionalString(preconditions['uid']),
    resourceVersion: optionalString(preconditions['resourceVersion']),
  };
}

function stringList(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function optionalString(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
