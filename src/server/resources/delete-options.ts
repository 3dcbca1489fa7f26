// The options of a DELETE, from its body or from its query.

import type { Json } from '../../api/object.ts';
import {
  type FieldError,
  invalid,
  invalidObject,
  notSupported,
} from '../../api/schema/field-error.ts';
import { goKind } from '../../api/schema/go-text.ts';
import { badRequest } from './errors.ts';
import { metaGroup, readDryRun } from './options.ts';
import { booleanParameter, integerParameter } from './parameters.ts';

export interface DeleteOptions {
  readonly dryRun: boolean;
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
}

/** The site has no garbage collector, so all policies delete only the object. It validates them anyway. */
const propagationPolicies = ['Foreground', 'Background', 'Orphan'];

interface Given {
  readonly dryRun: readonly string[];
  readonly propagationPolicy: string | undefined;
  readonly orphanDependents: boolean | undefined;
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
}

/** `body` is the sent DeleteOptions, or undefined. */
export function deleteOptions(query: URLSearchParams, body: Json | undefined): DeleteOptions {
  const given = body === undefined ? fromQuery(query) : fromBody(body);
  const errors: FieldError[] = [];
  const policy = given.propagationPolicy;
  if (policy !== undefined && !propagationPolicies.includes(policy)) {
    errors.push(notSupported('propagationPolicy', policy, [...propagationPolicies, 'nil']));
  }
  if (policy !== undefined && given.orphanDependents !== undefined) {
    errors.push(
      invalid(
        'propagationPolicy',
        policy,
        'orphanDependents and deletionPropagation cannot be both set',
      ),
    );
  }
  const dryRun = readDryRun(given.dryRun, errors);
  if (errors.length > 0)
    throw invalidObject({ group: metaGroup, kind: 'DeleteOptions', name: '' }, errors);
  return { dryRun, uid: given.uid, resourceVersion: given.resourceVersion };
}

function fromQuery(query: URLSearchParams): Given {
  integerParameter(query, 'gracePeriodSeconds');
  return {
    dryRun: query.getAll('dryRun'),
    propagationPolicy: query.get('propagationPolicy') ?? undefined,
    orphanDependents: booleanParameter(query, 'orphanDependents'),
    uid: undefined,
    resourceVersion: undefined,
  };
}

function fromBody(body: Json): Given {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw badRequest('decoded object cannot be converted to DeleteOptions');
  }
  const options = body as { readonly [key: string]: Json };
  const kind = options['kind'] ?? 'DeleteOptions';
  if (kind !== 'DeleteOptions') {
    throw badRequest(
      `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(options['apiVersion'] ?? '')}`,
    );
  }
  const text = (
    holder: { readonly [key: string]: Json },
    path: string,
    goType: string,
  ): string | undefined => {
    const value = holder[path.slice(path.lastIndexOf('.') + 1)];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== 'string') throw wrongType(path, value, goType);
    return value;
  };
  const dryRun = options['dryRun'] ?? [];
  if (!Array.isArray(dryRun)) throw wrongType('dryRun', dryRun, '[]string');
  const preconditions = options['preconditions'] ?? {};
  if (typeof preconditions !== 'object' || Array.isArray(preconditions))
    throw wrongType('preconditions', preconditions, 'v1.Preconditions');
  const conditions = preconditions as { readonly [key: string]: Json };
  const orphan = options['orphanDependents'];
  return {
    dryRun: (dryRun as readonly Json[]).map(String),
    propagationPolicy: text(options, 'propagationPolicy', 'v1.DeletionPropagation'),
    orphanDependents: typeof orphan === 'boolean' ? orphan : undefined,
    uid: text(conditions, 'preconditions.uid', 'types.UID'),
    resourceVersion: text(conditions, 'preconditions.resourceVersion', 'string'),
  };
}

function wrongType(path: string, value: Json, goType: string) {
  return badRequest(
    `json: cannot unmarshal ${goKind(value)} into Go struct field DeleteOptions.${path} of type ${goType}`,
  );
}
