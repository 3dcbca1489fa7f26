// Renders a ValidatingAdmissionPolicy with its binding, and the CEL expressions that policies share. The
// expressions use nothing that Kubernetes 1.30 does not have. Pure.

import {
  defaultAccountName,
  defaultAccountNamespace,
  type Manifest,
  ownLabels,
  sitePath,
  userPrefix,
} from '../../core/kube/manifests/manifest.ts';
import { termManager } from '../names.ts';

const epochPattern = '^[1-9][0-9]{0,14}$';

const apiVersion = 'admissionregistration.k8s.io/v1';

/** Which requests a policy judges. */
export interface PolicyRule {
  readonly group: string;
  readonly version: string;
  readonly resources: readonly string[];
  readonly names?: readonly string[];
  readonly operations: readonly ('CREATE' | 'UPDATE' | 'DELETE')[];
}

export interface Validation {
  readonly expression: string;
  readonly message: string;
  /** CEL that says more than `message`. */
  readonly messageExpression?: string;
}

export interface Policy {
  readonly name: string;
  readonly rules: readonly PolicyRule[];
  /** What happens where the policy cannot be evaluated. */
  readonly failurePolicy: 'Fail' | 'Ignore';
  /** By name. */
  readonly conditions: Readonly<Record<string, string>>;
  readonly variables?: Readonly<Record<string, string>>;
  readonly validations: readonly Validation[];
  /** The object `params`, cluster-scoped unless it has a namespace. Without it, the policy allows all. */
  readonly params?: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly namespace?: string;
    readonly name: string;
  };
  readonly annotations?: Readonly<Record<string, string>>;
}

export function policyManifests(policy: Policy): readonly Manifest[] {
  const { name, rules, failurePolicy, conditions, validations, params } = policy;
  const { variables = {}, annotations } = policy;
  const metadata = { name, labels: ownLabels };
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata: annotations === undefined ? metadata : { ...metadata, annotations },
      spec: {
        failurePolicy,
        ...(params === undefined
          ? {}
          : { paramKind: { apiVersion: params.apiVersion, kind: params.kind } }),
        // With all defaults: it is one field of server-side apply, and two managers conflict if the API server adds
        // to it.
        matchConstraints: {
          matchPolicy: 'Equivalent',
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: rules.map(({ group, version, resources, names, operations }) => ({
            apiGroups: [group],
            apiVersions: [version],
            resources,
            ...(names === undefined ? {} : { resourceNames: names }),
            operations,
            scope: '*',
          })),
        },
        matchConditions: named(conditions),
        variables: named(variables),
        validations,
      },
    },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: {
        policyName: name,
        validationActions: ['Deny'],
        ...(params === undefined ? {} : { paramRef: paramRefOf(params) }),
      },
    },
  ];
}

const paramRefOf = ({ namespace, name }: NonNullable<Policy['params']>): object => ({
  name,
  ...(namespace === undefined ? {} : { namespace }),
  parameterNotFoundAction: 'Allow',
});

const named = (expressions: Readonly<Record<string, string>>): readonly object[] =>
  Object.entries(expressions).map(([name, expression]) => ({ name, expression }));

/** A string literal. CEL has all escapes of JSON, apart from `\/`, which JSON.stringify does not write. */
export const text = (value: string): string => JSON.stringify(value);

/** What expressions read annotations of. */
type Subject = 'object' | 'oldObject' | 'params';

/** The optional value of an annotation. `object` must not be null. */
export const annotationOf = (object: Subject, key: string): string =>
  `${object}.metadata.?annotations[?${text(key)}]`;

/** The epoch in an annotation; 0 where there is none, or another text. As `epochOf` reads it. */
export const epochIn = (object: Subject, key: string): string =>
  `${object} == null || !${annotationOf(object, key)}.orValue("").matches(${text(epochPattern)}) ? 0 : int(${annotationOf(object, key)}.orValue("0"))`;

/** The epoch in the field manager of a request; 0 where there is none. As `FencedWriter.replaceStatus` writes it. */
export const epochOfManager = ((manager: string): string =>
  `${manager}.matches(${text(`^${termManager}${epochPattern.slice(1)}`)}) ? int(${manager}.substring(${termManager.length})) : 0`)(
  'request.options.?fieldManager.orValue("")',
);

/**
 * The user names that are sites by their form: ServiceAccounts of the system namespace, those that `hansa cluster
 * add` creates, and JWT-SVIDs of sites. So the policies are the same for all sites that lead the cluster. CEL and
 * JavaScript read this pattern alike.
 */
const siteForm = (namespace: string): string =>
  [
    `^system:serviceaccount:${namespace}:`,
    `^system:serviceaccount:${defaultAccountNamespace}:${defaultAccountName}(-|$)`,
    `^${userPrefix}spiffe://[^/]+${sitePath}$`,
  ].join('|');

/** The user names that policies must list. */
export function listedUsers(namespace: string, users: readonly string[]): readonly string[] {
  const form = new RegExp(siteForm(namespace));
  return [...new Set(users)].filter((user) => !form.test(user)).toSorted();
}

/**
 * Whether the role of members is bound to the sender: it may create EndpointSlices in all namespaces. A name alone
 * proves nothing. A user who may create namespaces could create that of a site, with its account.
 */
const isBound =
  'authorizer.group("discovery.k8s.io").resource("endpointslices").check("create").allowed()';

/** Whether a site of the cluster set sends the request. The API server asks for rights only where the name fits. */
export function isPrincipal(namespace: string, users: readonly string[]): string {
  const user = 'request.userInfo.username';
  const byForm = `${user}.matches(${text(siteForm(namespace))})`;
  const listed = listedUsers(namespace, users).map(text);
  const isNamed = listed.length === 0 ? byForm : `(${byForm} || ${user} in [${listed.join(', ')}])`;
  return `${isNamed} && ${isBound}`;
}
