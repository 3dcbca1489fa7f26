// Self-reviews in the format of Kubernetes: `kubectl auth can-i`, `can-i --list` and `whoami` send
// them. Every authenticated caller may use them. The authorizer that decides on requests also
// answers reviews. Pure functions of a parsed body and a caller.

import { group, type Json, type JsonObject, timestamp } from '../../api/object.ts';
import { HansaError } from '../errors/error.ts';
import { type Authorizer, type Decision, discoveryPaths } from './authorizer.ts';
import { type Caller, isAuthenticated } from './identity.ts';
import { everything, type Rule, ruleNames } from './rules.ts';

const authorizationApi = 'authorization.k8s.io/v1';
const authenticationApi = 'authentication.k8s.io/v1';
const authorizationGroup = 'authorization.k8s.io';
const authenticationGroup = 'authentication.k8s.io';

/** What every authenticated caller may create, as `system:basic-user` of Kubernetes. */
const openReviews: ReadonlyMap<string, readonly string[]> = new Map([
  [authorizationGroup, ['selfsubjectaccessreviews', 'selfsubjectrulesreviews']],
  [authenticationGroup, ['selfsubjectreviews']],
]);

function checkKind(body: unknown, apiVersion: string, kind: string): JsonObject {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new HansaError('HANSA_BAD_REQUEST', `not a ${kind}: the body is not an object`);
  const object = body as JsonObject;
  if (object.apiVersion !== apiVersion || object.kind !== kind)
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `the body must be a ${kind} of ${apiVersion}, not ${JSON.stringify(object.kind ?? null).slice(0, 80)} of ${JSON.stringify(object.apiVersion ?? null).slice(0, 80)}`,
    );
  return object;
}

/** Fields of the review's spec are optional; null says the same as absent. */
function objectField(object: JsonObject, field: string): JsonObject | undefined {
  const value = object[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'object' || Array.isArray(value))
    throw new HansaError('HANSA_BAD_REQUEST', `${field} must be an object`);
  return value as JsonObject;
}

function textField(object: JsonObject, field: string): string {
  const value = object[field];
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string')
    throw new HansaError('HANSA_BAD_REQUEST', `${field} must be a string`);
  return value;
}

/** `kubectl auth can-i VERB TYPE[/NAME] [--subresource=S]` and `can-i VERB /path`. */
export function selfSubjectAccessReview(
  authorizer: Authorizer,
  caller: Caller,
  body: unknown,
): JsonObject {
  const kind = 'SelfSubjectAccessReview';
  const spec = objectField(checkKind(body, authorizationApi, kind), 'spec') ?? {};
  const resource = objectField(spec, 'resourceAttributes');
  const path = objectField(spec, 'nonResourceAttributes');
  if (resource !== undefined && path !== undefined)
    throw invalidReview(
      'spec.nonResourceAttributes',
      JSON.stringify(path).slice(0, 256),
      'cannot be specified in combination with resourceAttributes',
    );
  if (resource === undefined && path === undefined)
    throw invalidReview(
      'spec.resourceAttributes',
      'null',
      'exactly one of nonResourceAttributes or resourceAttributes must be specified',
    );
  const { allowed, reason } =
    resource === undefined
      ? reviewPath(authorizer, caller, path as JsonObject)
      : reviewResource(authorizer, caller, resource);
  return {
    kind,
    apiVersion: authorizationApi,
    metadata: {},
    spec,
    status: { allowed, ...(reason === '' ? {} : { reason }) },
  };
}

function reviewPath(authorizer: Authorizer, caller: Caller, attributes: JsonObject): Decision {
  return authorizer.authorizePath(
    caller,
    textField(attributes, 'verb'),
    textField(attributes, 'path'),
  );
}

const tokenReviews = {
  plural: 'tokenreviews',
  right: { plural: 'clusters', subresource: 'tokenreviews' },
} as const;

const allowedToAuthenticated: Decision = {
  allowed: true,
  reason: 'every authenticated caller may ask about itself',
};

function reviewResource(authorizer: Authorizer, caller: Caller, attributes: JsonObject): Decision {
  const asked = textField(attributes, 'group');
  const verb = textField(attributes, 'verb');
  const plural = textField(attributes, 'resource');
  if (asked === group)
    return authorizer.authorize(caller, {
      verb,
      plural,
      name: textField(attributes, 'name'),
      subresource: textField(attributes, 'subresource'),
    });
  // The right to create a TokenReview is a right on the cluster that it is about.
  if (asked === authenticationGroup && plural === tokenReviews.plural)
    return authorizer.authorize(caller, {
      verb,
      ...tokenReviews.right,
      name: textField(attributes, 'name'),
    });
  if (isAuthenticated(caller) && verb === 'create' && openReviews.get(asked)?.includes(plural))
    return allowedToAuthenticated;
  // The site serves no other group. Only callers with all rights may access `*`.
  return authorizer.authorizePath(caller, everything, everything);
}

function invalidReview(field: string, value: string, detail: string): HansaError {
  const kind = 'SelfSubjectAccessReview';
  const message = `Invalid value: ${value}: ${detail}`;
  return new HansaError(
    'HANSA_INVALID',
    `${kind}.${authorizationGroup} "" is invalid: ${field}: ${message}`,
    {
      details: {
        group: authorizationGroup,
        kind,
        causes: [{ reason: 'FieldValueInvalid', message, field }],
      },
    },
  );
}

/** `kubectl auth can-i --list`. */
export function selfSubjectRulesReview(
  authorizer: Authorizer,
  caller: Caller,
  body: unknown,
): JsonObject {
  const kind = 'SelfSubjectRulesReview';
  const spec = objectField(checkKind(body, authorizationApi, kind), 'spec') ?? {};
  if (textField(spec, 'namespace') === '')
    throw new HansaError('HANSA_BAD_REQUEST', 'no namespace on request');
  const unlimited = authorizer.isUnlimited(caller);
  const resourceRules: Json[] = [];
  if (unlimited)
    resourceRules.push({ verbs: [everything], apiGroups: [everything], resources: [everything] });
  for (const [apiGroup, resources] of openReviews)
    resourceRules.push({ verbs: ['create'], apiGroups: [apiGroup], resources });
  for (const rule of authorizer.rulesFor(caller)) {
    const resources = resourcesOf(authorizer, rule);
    if (resources.length === 0 || rule.verbs.length === 0) continue;
    const resourceNames = ruleNames(rule);
    resourceRules.push({
      verbs: rule.verbs,
      apiGroups: [group],
      resources,
      ...(resourceNames === undefined ? {} : { resourceNames }),
    });
  }
  const nonResourceRules: Json[] = [{ verbs: ['get'], nonResourceURLs: discoveryPaths }];
  if (unlimited) nonResourceRules.push({ verbs: [everything], nonResourceURLs: [everything] });
  return {
    kind,
    apiVersion: authorizationApi,
    metadata: {},
    spec: {},
    status: { resourceRules, nonResourceRules, incomplete: false },
  };
}

/** As Kubernetes writes them: plural names, and `plural/subresource`. Kinds that the site lacks are left out. */
function resourcesOf(authorizer: Authorizer, rule: Rule): string[] {
  const plurals = rule.kinds.flatMap((kind) => {
    if (kind === everything) return [everything];
    const plural = authorizer.pluralOf(kind);
    return plural === kind ? [] : [plural];
  });
  const subresources = rule.subresources ?? [];
  return subresources.length === 0
    ? plurals
    : plurals.flatMap((plural) => subresources.map((subresource) => `${plural}/${subresource}`));
}

/** `kubectl auth whoami`. */
export function selfSubjectReview(caller: Caller, body: unknown, nowMs: number): JsonObject {
  const kind = 'SelfSubjectReview';
  checkKind(body, authenticationApi, kind);
  const extra: Record<string, Json> = { 'hansa.dev/via': [caller.via] };
  if (caller.credential !== undefined) extra['hansa.dev/credential'] = [caller.credential];
  return {
    kind,
    apiVersion: authenticationApi,
    metadata: { creationTimestamp: timestamp(nowMs) },
    status: { userInfo: { username: caller.user, groups: caller.groups, extra } },
  };
}
