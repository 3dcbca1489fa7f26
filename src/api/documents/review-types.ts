// Schemas of the reviews of Kubernetes: the self-reviews that `kubectl auth can-i` and `kubectl auth whoami`
// send, and TokenReview. They are not resources: only `create` exists, and nothing is stored.

import { optional, required, s } from '../schema/dsl.ts';
import type { ObjectSchema } from '../schema/schema.ts';

export interface ReviewKind {
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly description: string;
  readonly spec?: ObjectSchema;
  readonly status: ObjectSchema;
}

export interface ReviewGroup {
  readonly group: string;
  readonly version: string;
  readonly kinds: readonly ReviewKind[];
}

const strings = (description: string) =>
  s.list({
    description,
    listType: 'atomic',
    items: s.string({ description: 'One of them; "*" is all.' }),
  });

const selfSubjectAccessReview: ReviewKind = {
  kind: 'SelfSubjectAccessReview',
  plural: 'selfsubjectaccessreviews',
  singular: 'selfsubjectaccessreview',
  description: 'Asks whether the caller may do something.',
  spec: s.object({
    description: 'What the caller would do: exactly one of the two.',
    fields: {
      resourceAttributes: optional(
        s.object({
          description: 'An action on objects.',
          fields: {
            group: optional(s.string({ description: 'The API group.' })),
            version: optional(s.string({ description: 'The API version.' })),
            resource: optional(s.string({ description: 'The plural of the kind.' })),
            subresource: optional(s.string({ description: 'The subresource.' })),
            verb: optional(s.string({ description: 'The verb.' })),
            name: optional(s.string({ description: 'The name of one object; empty is all.' })),
            namespace: optional(s.string({ description: 'Not used.' })),
          },
        }),
      ),
      nonResourceAttributes: optional(
        s.object({
          description: 'A request that is not about objects.',
          fields: {
            path: optional(s.string({ description: 'The path of the URL.' })),
            verb: optional(s.string({ description: 'The HTTP method in lower case.' })),
          },
        }),
      ),
    },
  }),
  status: s.object({
    description: 'The answer.',
    fields: {
      allowed: required(s.boolean({ description: 'Whether the caller may.' })),
      denied: optional(s.boolean({ description: 'Whether it is forbidden outright.' })),
      reason: optional(s.string({ description: 'Why.' })),
      evaluationError: optional(s.string({ description: 'What went wrong while deciding.' })),
    },
  }),
};

const selfSubjectRulesReview: ReviewKind = {
  kind: 'SelfSubjectRulesReview',
  plural: 'selfsubjectrulesreviews',
  singular: 'selfsubjectrulesreview',
  description: 'Asks for everything that the caller may do.',
  spec: s.object({
    description: 'The question.',
    fields: { namespace: optional(s.string({ description: 'Not used.' })) },
  }),
  status: s.object({
    description: 'The answer.',
    fields: {
      resourceRules: required(
        s.list({
          description: 'What the caller may do with objects.',
          listType: 'atomic',
          items: s.object({
            description: 'Each of the verbs on each of the resources.',
            fields: {
              verbs: required(strings('The verbs.')),
              apiGroups: optional(strings('The API groups.')),
              resources: optional(strings('The resources.')),
              resourceNames: optional(strings('Only objects of these names.')),
            },
          }),
        }),
      ),
      nonResourceRules: required(
        s.list({
          description: 'Which other requests the caller may make.',
          listType: 'atomic',
          items: s.object({
            description: 'Each of the verbs on each of the paths.',
            fields: {
              verbs: required(strings('The HTTP methods in lower case.')),
              nonResourceURLs: optional(strings('The paths.')),
            },
          }),
        }),
      ),
      incomplete: required(s.boolean({ description: 'Whether there may be more.' })),
      evaluationError: optional(s.string({ description: 'What went wrong while deciding.' })),
    },
  }),
};

const userInfo = (description: string) =>
  s.object({
    description,
    fields: {
      username: optional(s.string({ description: 'The name.' })),
      uid: optional(s.string({ description: 'Unique over time.' })),
      groups: optional(strings('The groups of the user.')),
      extra: optional(
        s.map({
          description: 'What else is known.',
          values: s.list({
            description: 'Values.',
            listType: 'atomic',
            items: s.string({ description: 'A value.' }),
          }),
        }),
      ),
    },
  });

const selfSubjectReview: ReviewKind = {
  kind: 'SelfSubjectReview',
  plural: 'selfsubjectreviews',
  singular: 'selfsubjectreview',
  description: 'Asks who the caller is.',
  status: s.object({
    description: 'The answer.',
    fields: { userInfo: optional(userInfo('The caller.')) },
  }),
};

const audiences = (description: string) =>
  s.list({
    description,
    listType: 'atomic',
    items: s.string({ description: 'An audience.' }),
  });

const tokenReview: ReviewKind = {
  kind: 'TokenReview',
  plural: 'tokenreviews',
  singular: 'tokenreview',
  description:
    'Asks whom a ServiceAccount token of a registered cluster authenticates. The host name of the request names the cluster.',
  spec: s.object({
    description: 'The question.',
    fields: {
      token: optional(s.string({ description: 'The token.' })),
      audiences: optional(
        audiences('The token must be for one of these. Default: the audiences of the API server.'),
      ),
    },
  }),
  status: s.object({
    description: 'The answer.',
    fields: {
      authenticated: optional(s.boolean({ description: 'Whether the token is valid.' })),
      user: optional(userInfo('The user that the token authenticates.')),
      audiences: optional(audiences('The audiences that both the token and the question name.')),
      error: optional(s.string({ description: 'Why the token could not be checked.' })),
    },
  }),
};

/** The preferred version of a group first. */
export const reviewGroups: readonly ReviewGroup[] = [
  {
    group: 'authentication.k8s.io',
    version: 'v1',
    kinds: [selfSubjectReview, tokenReview],
  },
  {
    // The webhook authenticator of kube-apiserver uses this version by default.
    group: 'authentication.k8s.io',
    version: 'v1beta1',
    kinds: [tokenReview],
  },
  {
    group: 'authorization.k8s.io',
    version: 'v1',
    kinds: [selfSubjectAccessReview, selfSubjectRulesReview],
  },
];
