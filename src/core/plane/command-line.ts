// The parts of the command line that a plane adds: commands, checks of `hansa doctor`, a part of
// `hansa status`, manifests of other programs that `hansa apply` converts, and warnings before a
// deletion.

import type { Command } from 'commander';
import type { Kind } from '../../api/kind.ts';
import type { JsonObject } from '../../api/object.ts';
import type { CommandKit } from './command-kit.ts';
import type { SiteCheck, SubjectCheck } from './doctor.ts';
import type { SiteClient } from './site-client.ts';

export interface PlaneCommandLine<Settings = unknown> {
  /**
   * Commands below `hansa`. Groups of the same name are merged, across planes too: one plane describes
   * the group, others only add to it. Two commands of the same path are an error at the start of the program.
   */
  readonly commands?: (kit: CommandKit) => readonly Command[];
  /** For completion: the commands that list the names of the plane's objects. */
  readonly names?: NameLists;
  readonly doctor?: PlaneDoctor<Settings>;
  /** The plane's part of `hansa status`. */
  readonly status?: (client: SiteClient, nowMs: number) => Promise<StatusPart>;
  /** Converts the manifests of another program. */
  readonly manifests?: ManifestConverter;
  readonly deletion?: DeletionEffects;
}

/**
 * Key: a command whose first argument is a name (`peer show`), or a flag with a name (`grant list
 * --peer`). Value: the command that lists such names with `-o name`.
 */
export type NameLists = ReadonlyMap<string, string>;

export interface PlaneDoctor<Settings = unknown> {
  /** In this order for a site that is reached by URL; `follows` places them among the others otherwise. */
  readonly site?: readonly SiteCheck<Settings>[];
  readonly subjects?: readonly SubjectCheck[];
}

type Rows = readonly (readonly [label: string, value: string])[];

/** Everything may come from a peer: `hansa status` removes control characters. */
export interface StatusPart {
  /** Fields of `-o json`. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The identity of the site: rows above its listeners. */
  readonly identity?: Rows;
  /** Rows below its listeners. */
  readonly rows?: Rows;
  /** Below all rows, with an empty line before it. */
  readonly table?: readonly (readonly string[])[];
  /** Below the table, one for each thing that the reader can do. */
  readonly lines?: readonly string[];
}

/** Fails with a reason. */
export type Refuse = (why: string) => never;

/** Returns the objects of a manifest, or undefined where it does not belong to the program that the converter knows. */
export type ManifestConverter = (
  value: JsonObject,
  refuse: Refuse,
) => readonly ConvertedManifest[] | undefined;

export interface ConvertedManifest {
  readonly object: JsonObject;
  /**
   * Returns the object for an apply, where it depends on settings of the site. `object` then only names
   * it. Throws HANSA_BAD_REQUEST with what to change.
   */
  readonly complete?: (client: SiteClient) => Promise<JsonObject>;
}

export interface ObjectName {
  readonly kind: Kind;
  readonly name: string;
}

/** What else a deletion ends. Shown before the question. */
export interface DeletionEffects {
  /** A sentence for the question; undefined where these objects need no question. */
  readonly question?: (objects: readonly ObjectName[]) => string | undefined;
  /** Lines before the question. */
  readonly notes?: (
    client: SiteClient,
    objects: readonly ObjectName[],
  ) => Promise<readonly string[]>;
}
