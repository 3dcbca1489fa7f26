// The kinds that every site serves, whatever planes it has. A plane lists its own kinds in its
// plane.ts. This folder holds one file per kind; nothing here computes, and nothing here knows who
// serves or reconciles a kind.

import type { Kind } from '../kind.ts';
import { roleKind } from './role.ts';
import { roleBindingKind } from './role-binding.ts';
import { siteKind } from './site.ts';

export const coreKinds: readonly Kind[] = [siteKind, roleKind, roleBindingKind];
