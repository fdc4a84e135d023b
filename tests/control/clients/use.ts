// A program with the clients that two generators make of our documents: what is right compiles, what is wrong does not.
import type { paths as Calls } from './types/mission.d.ts'
import type { paths as DesktopCalls } from './types/openapi.d.ts'
import * as desktop from './client/openapi/index.ts'
import * as mission from './client/mission/index.ts'

type NewDesktop = Calls['/api/desktops']['post']['requestBody']['content']['application/json']
type Operation = Calls['/api/desktops']['post']['responses']['202']['content']['application/json']
export type Screen = DesktopCalls['/v1/screen']['get']

const wanted: NewDesktop = { name: 'reader', workspaceId: 'lab', tier: 'free' }
// @ts-expect-error: a name is a text
export const wrong: NewDesktop = { name: 7, workspaceId: 'lab', tier: 'free' }

export async function create(): Promise<Operation | undefined> {
  const { data } = await mission.createApiDesktopsPost({ body: wanted })
  return data
}

// @ts-expect-error: which desktop has to be said
export const nameless = () => mission.stopApiDesktopsIdStopPost({})
export const look = () => desktop.screen()
