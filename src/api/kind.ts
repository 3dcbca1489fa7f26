// The declaration of a kind. Validation, defaults, OpenAPI, discovery, tables, CLI columns,
// TypeScript types, CRDs and reference pages are all derived from it.

import type { Resource } from './object.ts';
import type { Infer, ObjectSchema } from './schema/schema.ts';

export interface Column {
  /** As kubectl prints it, in upper case there. */
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  /** A simple JSON path below the object, for example `.spec.role`. Dates are shown as ages. */
  readonly jsonPath: string;
  readonly description: string;
  /** Of a date: show how long it is until then, and not since. A CRD cannot say that, and shows the date. */
  readonly counts?: 'down';
  /** What a cell shows where a path cannot say it, from the whole object. A CRD cannot say that, and shows `jsonPath`. */
  readonly cell?: (object: never) => string;
  /** Columns with a priority above 0 are shown by `-o wide` only. */
  readonly priority?: number;
}

/** Which names objects of a kind may have. Those of trust domains and agents may have `_` (a deviation from kube-apiserver). */
export type NameRule = 'dns-subdomain' | 'dns-label' | 'trust-domain' | 'agent';

export interface Kind<
  Spec extends ObjectSchema = ObjectSchema,
  Status extends ObjectSchema = ObjectSchema,
> {
  readonly kind: string;
  /** Of objects that Kubernetes clusters store. The site renders their CRD, but does not serve them. */
  readonly cluster?: {
    readonly group: string;
    readonly scope: 'Cluster' | 'Namespaced';
    /** On the whole object, with `self.metadata.name`. */
    readonly rules?: readonly ObjectRule[];
  };
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly description: string;
  readonly names: NameRule;
  /** Names that no object may have, because they mean something else where names are used. */
  readonly reservedNames?: readonly string[];
  /** The only name that objects of this kind may have; users can neither create nor delete it. */
  readonly singleton?: string;
  readonly spec: Spec;
  /** Whether `spec` must be there. */
  readonly specRequired: boolean;
  /** Kinds with a status have the status subresource. */
  readonly status?: Status;
  /** Fields of the status that are kept as facts and put in when an object is read; see live-status.ts. */
  readonly liveStatus?: readonly string[];
  /** Between NAME and AGE. */
  readonly columns: readonly Column[];
  /** What the audit log calls changes of it: with `spiffe.federation`, a creation is `spiffe.federation.create`. Bare verbs unless told. */
  readonly auditName?: string;
  /** Spec fields (as `spec.peer`) that field selectors understand beside `metadata.name`. */
  readonly selectableFields?: readonly string[];
  /**
   * The preset role `editor` may create and change objects of this kind. Without it `editor` only
   * reads them, so that a new kind never widens the role by itself.
   */
  readonly editable?: true;
  /** Fields that the right to write the object does not cover. */
  readonly guardedFields?: readonly GuardedField[];
}

/** In CEL, for the CRD. */
export interface ObjectRule {
  readonly cel: string;
  readonly message: string;
}

/** Setting, changing or removing the field needs a further right. Of the preset roles only `admin` has it. */
export type GuardedField = {
  /** As `spec.advertiseURL`, `metadata.labels` or `metadata.labels[hansa.dev/peer]`. */
  readonly field: string;
  /** Only for objects whose list `field` has this item, before or after the change. */
  readonly onlyFor?: { readonly field: string; readonly item: string };
  /** Why the field of this object is guarded, for the caller: a clause. */
  readonly because?: string;
} & (
  | {
      /** The verb `update` on this subresource: what a role lists in `subresources`. No path serves it. */
      readonly subresource: string;
    }
  | {
      /** The verbs `create` and `update` on all objects of the kind with this plural, which is not `editable`. */
      readonly writes: string;
    }
);

export type ResourceOf<K> =
  K extends Kind<infer Spec, infer Status> ? Resource<Infer<Spec>, Infer<Status>> : never;

/** Keeps the literal types of a declaration, so that `ResourceOf` gives exact types. */
export function defineKind<const Spec extends ObjectSchema, const Status extends ObjectSchema>(
  kind: Kind<Spec, Status>,
): Kind<Spec, Status> {
  return kind;
}
