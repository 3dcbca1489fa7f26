// Declares the settings of a plane: its configuration keys, and a pure function from their values to
// the settings that the plane starts with.

import type { KeyType } from '../identity/x509/keys.ts';
import type { UpstreamFiles } from '../identity/authority/upstream.ts';
import type { ConfigKeys, ValuesOf } from './config-key.ts';
import type { ListenAddress } from './config-values.ts';

/** How the site's own authority is made and kept. */
export interface AuthoritySettings {
  readonly keyType: KeyType;
  readonly jwtKeyType: KeyType;
  readonly ttlSeconds: number;
  /** An operator confirmed that the clock is right up to this time. */
  readonly clockTrustedUntilMs: number | undefined;
  /** Undefined: the site is its own root. */
  readonly upstream: UpstreamFiles | undefined;
}

/** The site's own settings that a plane may read. */
export interface SiteSettings {
  /** Absolute. */
  readonly dataDir: string;
  readonly web: ListenAddress | 'off';
  readonly authority: AuthoritySettings;
}

export interface PlaneSettings<Settings = unknown, Keys extends ConfigKeys = ConfigKeys> {
  /** In the order of help texts. Names are unique among the site and all planes. */
  readonly keys: Keys;
  /** Pure. Called only where every value was accepted and `problems` found nothing. */
  read(values: ValuesOf<Keys>, site: SiteSettings): Settings;
  /**
   * Problems between keys: one needs or excludes another. `remembered` names the keys whose value comes
   * from the data folder and says how to remove it; append its text to a problem.
   */
  problems?(
    values: ValuesOf<Keys>,
    site: SiteSettings,
    remembered: (...names: readonly (keyof Keys & string)[]) => string,
  ): readonly string[];
  /** Warnings about valid values that are rarely intended. */
  warnings?(settings: Settings): readonly string[];
}

/** Keeps the types of the keys, so that `read` gets exact values. */
export function definePlaneSettings<Settings, Keys extends ConfigKeys>(
  settings: PlaneSettings<Settings, Keys>,
): PlaneSettings<Settings, Keys> {
  return settings;
}
