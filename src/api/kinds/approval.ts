// The kind Approval: a request to do something that needs the consent of another person, and the decision
// about it. Only the site creates Approvals.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';

export type Approval = ResourceOf<typeof approvalKind>;

/** The site refuses a request whose change is longer: an approver could not read it. */
const maxChangeLength = 65_536;

const origin = s.string({
  description:
    'Where the credential came from. socket: the admin socket, or a user SVID that it issued. token: a token, or a user SVID that was obtained with one.',
  enum: ['socket', 'token'],
});

const user = s.string({ description: 'The user, such as token:ci or alice.', maxLength: 512 });

export const approvalKind = defineKind({
  kind: 'Approval',
  plural: 'approvals',
  singular: 'approval',
  shortNames: [],
  description:
    'A request to do something that needs approval, and the decision about it. The site creates one when a caller tries such an action. An approver sets spec.decision; nothing else in spec can change. The approved caller then repeats the action, which spends the Approval.',
  names: 'dns-subdomain',
  specRequired: true,
  auditName: 'approval',
  spec: s.object({
    description: 'What was requested, by whom, and the decision.',
    fields: {
      action: required(
        s.string({
          description:
            'The action of the policy in the Site, such as peer.confirm or FederationGrant.create.',
          maxLength: 128,
        }),
      ),
      verb: required(
        s.string({
          description: 'What will be done to the target, such as create.',
          maxLength: 63,
        }),
      ),
      mode: required(
        s.string({
          description:
            'approver: any caller with the right to approve decides, except the requester. two-person: also not the admin socket, nor a credential that came through it.',
          enum: ['approver', 'two-person'],
        }),
      ),
      target: required(
        s.object({
          description: 'The object that the action is about.',
          fields: {
            kind: required(s.string({ description: 'Its kind.', maxLength: 63 })),
            name: required(s.string({ description: 'Its name.', maxLength: 255 })),
            uid: optional(
              s.string({ description: 'Its uid. Absent if it does not exist yet.', maxLength: 64 }),
            ),
            generation: optional(
              s.integer({
                description: 'Its generation. After a change of its spec, the Approval is void.',
                minimum: 0,
              }),
            ),
          },
        }),
      ),
      requester: required(
        s.object({
          description: 'Who asked. Only this user can use the Approval.',
          fields: { user: required(user), origin: optional(origin) },
        }),
      ),
      summary: required(
        s.string({ description: 'What will be done, in a sentence.', maxLength: 1024 }),
      ),
      change: required(
        s.string({
          description: 'Everything that will be written, as JSON: the resulting spec and metadata.',
          maxLength: maxChangeLength,
        }),
      ),
      hash: required(
        s.string({
          description:
            'SHA-256 over action, verb, target, requester and change. The Approval allows exactly this.',
          pattern: '^[0-9a-f]{64}$',
          maxLength: 64,
        }),
      ),
      expiresAt: required(
        s.time({ description: 'Until when it can be decided and used. Then it is rejected.' }),
      ),
      review: optional(
        s.boolean({
          description:
            'The action has already been done, in an emergency. The decision is a statement about it and undoes nothing.',
        }),
      ),
      decision: optional(
        s.string({
          description: 'The decision. It needs the verb approve, and is final.',
          enum: ['approved', 'rejected'],
        }),
      ),
      comment: optional(
        s.string({ description: 'Why, in the words of the approver.', maxLength: 1024 }),
      ),
    },
  }),
  status: s.object({
    description: 'What happened to the request.',
    fields: {
      state: optional(
        s.string({
          description:
            'pending: waits for a decision. approved: the requester can repeat the action. rejected: by an approver, or because no decision came in time. spent: the action was done. expired: approved, but not used in time, or its approver may not approve any more.',
          enum: ['pending', 'approved', 'rejected', 'spent', 'expired'],
        }),
      ),
      reason: optional(s.string({ description: 'Why, in a sentence.', maxLength: 1024 })),
      decidedBy: optional(
        s.object({
          description: 'Who decided.',
          fields: {
            user: required(user),
            origin: optional(origin),
            tokenID: optional(
              s.string({
                description:
                  'The id of the token. The approval counts only while this token is valid and may approve.',
                maxLength: 64,
              }),
            ),
          },
        }),
      ),
      decidedAt: optional(s.time({ description: 'When the decision was made.' })),
      spentAt: optional(s.time({ description: 'When the action was done.' })),
    },
  }),
  columns: [
    {
      name: 'State',
      type: 'string',
      jsonPath: '.status.state',
      description: 'pending, approved, rejected, spent or expired.',
    },
    { name: 'Action', type: 'string', jsonPath: '.spec.action', description: 'The action.' },
    {
      name: 'Target',
      type: 'string',
      jsonPath: '.spec.target.name',
      description: 'The object that it is about.',
    },
    {
      name: 'Requester',
      type: 'string',
      jsonPath: '.spec.requester.user',
      description: 'Who asked.',
    },
    {
      name: 'Expires',
      type: 'date',
      counts: 'down',
      jsonPath: '.spec.expiresAt',
      description: 'How long it can still be decided and used.',
    },
    {
      name: 'Summary',
      type: 'string',
      jsonPath: '.spec.summary',
      description: 'What will be done.',
      priority: 1,
    },
  ],
});
