import { errorsOf } from '@locks/core/adapter'
import type { AdapterErrors } from '@locks/core/adapter'

export const errors: AdapterErrors = errorsOf('@locks/redlock')
